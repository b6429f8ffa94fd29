#include "core/report/html/html_report.hpp"

#include <nlohmann/json.hpp>

#include "core/play/words.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/report/html/embedded.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

constexpr const char* kHowToDraw = "./bootstrap install-deps && ./bootstrap build";
constexpr const char* kMemoryDefinition =
    "Needed is what tensors and workspace hold at the peak, with the allocator's reserve, and the CUDA context, "
    "communicators and "
    "libraries.";
// Both are used unchanged, as their licenses allow with this notice.
constexpr const char* kChartNotice =
    "/*! Apache ECharts, Copyright The Apache Software Foundation, Apache License 2.0; ZRender, Copyright Baidu Inc., "
    "BSD 3-Clause "
    "License. */\n";

ordered_json words() {
  auto out = ordered_json::object();
  for (int c = 0; c < kTimeCategories; ++c)
    out["time"][std::string(name_of(static_cast<TimeCategory>(c)))] = words_of(static_cast<TimeCategory>(c));
  for (int c = 0; c < kMemoryCategories; ++c)
    out["memory"][std::string(name_of(static_cast<MemoryCategory>(c)))] = name_of(static_cast<MemoryCategory>(c));
  return out;
}

ordered_json page_words() {
  return {{"words", words()},
          {"definitions", {{"utilisation", kUtilisationDefinition}, {"memory", kMemoryDefinition}}}};
}

/// JSON that may stand inside a script element: no '<' that could end it or open a comment.
std::string inside_script(const std::string& json) {
  std::string out;
  out.reserve(json.size() + json.size() / 64);
  for (const char c : json)
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

std::string data_of(const HtmlReport& report) {
  ordered_json data{{"schema", kReportSchema}, {"kind", report.kind}, {"version", report.version}};
  if (!report.heading.empty()) data["heading"] = report.heading;
  data["answer"] = ordered_json::parse(report.answer);
  for (const auto& [name, json] : report.parts) data[name] = ordered_json::parse(json);
  data.update(page_words());
  data["pictures_hint"] = kHowToDraw;
  return data.dump();
}

}  // namespace

std::string plan_json(const PlanSummary& plan) {
  return ordered_json{{"model", plan.model},     {"parameters", plan.parameters}, {"gpus", plan.gpus},
                      {"cluster", plan.cluster}, {"strategy", plan.strategy},     {"samples", plan.samples}}
      .dump();
}

std::string page_words_json() { return page_words().dump(); }

bool has_pictures() { return html::chart_library().size() > 100; }

std::string html_text(const HtmlReport& report) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, "
      "initial-scale=1\">\n<title>Rehearse</title>\n"
      "<link rel=\"icon\" href=\"data:,\">\n<style>\n";
  out += html::page_style();
  out +=
      "</style>\n</head>\n<body>\n<header class=\"masthead\"></header>\n<main></main>\n"
      "<noscript>This page draws itself: it needs JavaScript. Its figures are in its source, as "
      "JSON.</noscript>\n<script "
      "type=\"application/json\" id=\"report-data\">";
  out += inside_script(data_of(report));
  out += "</script>\n";
  if (has_pictures()) {
    out += "<script>";
    out += kChartNotice;
    out += html::chart_library();
    out += "</script>\n";
  }
  out += "<script>\n(() => {\n'use strict';\n";
  out += html::page_script();
  out += "})();\n</script>\n</body>\n</html>\n";
  return out;
}

void write_html_report(const std::string& path, const HtmlReport& report) { write_file(path, html_text(report)); }

}  // namespace rehearse
