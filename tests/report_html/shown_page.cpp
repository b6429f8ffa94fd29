#include "tests/report_html/shown_page.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>

#include <unistd.h>
#include <nlohmann/json.hpp>

namespace rehearse::test {

namespace {

std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string out;
  std::array<char, 65536> piece{};
  for (std::size_t n; (n = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;) out.append(piece.data(), n);
  pclose(pipe);
  return out;
}

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// Text of an element's content: without tags, with a space for the hard one.
std::string plain(std::string html) {
  std::string out;
  bool inside = false;
  for (const char c : html) {
    if (c == '<') inside = true;
    if (!inside) out += c;
    if (c == '>') inside = false;
  }
  replace(out, "&nbsp;", " ");
  replace(out, "\u00a0", " ");
  replace(out, "\u2212", "-");
  return out;
}

std::string attribute(const std::string& tag, const std::string& name) {
  const std::size_t at = tag.find(" " + name + "=\"");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 3;
  return tag.substr(begin, tag.find('"', begin) - begin);
}

void read_figures(const std::string& dom, ShownPage& page) {
  for (std::size_t at = 0; (at = dom.find("data-value=\"", at)) != std::string::npos;) {
    const std::size_t open = dom.rfind('<', at), end = dom.find('>', at);
    const std::string tag = dom.substr(open, end - open);
    const std::string close = "</" + tag.substr(1, tag.find(' ') - 1) + ">";
    const ShownFigure figure{attribute(tag, "data-path"), attribute(tag, "data-value"),
                             plain(dom.substr(end + 1, dom.find(close, end) - end - 1))};
    (figure.path.empty() ? page.derived : page.figures).push_back(figure);
    at = end;
  }
}

/// Points at one mark of each picture and leaves what the picture says of it as an attribute: the first mark that has
/// something to say.
constexpr const char* kPointer = R"(<script>
for (const host of document.querySelectorAll('.chart')) {
  const chart = typeof echarts === 'undefined' ? undefined : echarts.getInstanceByDom(host);
  for (const [i, series] of chart ? chart.getOption().series.entries() : []) {
    // Some lie outside of what is zoomed at: tried are up to 60, spread over all.
    const marks = (series.data || []).length;
    for (let k = 0; k < marks && !host.dataset.tip; k += Math.max(1, Math.floor(marks / 60))) {
      chart.dispatchAction({ type: 'showTip', seriesIndex: i, dataIndex: k });
      const tip = [...host.children].slice(1).map((e) => e.innerText).join(' ').trim();
      if (/\d/.test(tip)) host.dataset.tip = tip.replace(/["<>\n]/g, ' ');
    }
  }
}
</script>
)";

void read_pictures(const std::string& dom, ShownPage& page) {
  for (std::size_t at = 0; (at = dom.find("data-drawn=\"yes\"", at)) != std::string::npos; ++at) {
    const std::size_t open = dom.rfind('<', at);
    const std::string tag = dom.substr(open, dom.find('>', at) - open);
    page.tips.push_back(plain(attribute(tag, "data-tip")));
    if (attribute(tag, "aria-label").size() < 20 || attribute(tag, "role") != "img") ++page.unnamed;
  }
}

/// One page after the other in a frame as large as the window; what becomes of each in an element with its name.
constexpr const char* kGatherer = R"(<!doctype html><meta charset="utf-8"><body style="margin:0"><script>
const show = (names) => {
  if (names.length === 0) return;
  const frame = document.createElement('iframe');
  frame.style = 'border:0;width:1400px;height:2000px';
  frame.onload = () => setTimeout(() => {
    const text = document.createElement('template');
    text.title = names[0];
    text.dataset.text = frame.contentDocument.documentElement.outerHTML;
    frame.remove();
    document.body.append(text);
    show(names.slice(1));
  }, 2000);
  frame.src = names[0];
  document.body.append(frame);
};
show([NAMES]);
</script>)";

std::string page_name(std::size_t i) { return "page" + std::to_string(i) + ".html"; }

/// The document that the gatherer left of a page; empty where there is none.
std::string gathered(const std::string& dom, const std::string& name) {
  const std::string begin = "title=\"" + name + "\" data-text=\"";
  const std::size_t at = dom.find(begin);
  if (at == std::string::npos) return "";
  std::string out = dom.substr(at + begin.size(), dom.find('"', at + begin.size()) - at - begin.size());
  for (const auto& [escaped, plain] : std::initializer_list<std::pair<const char*, const char*>>{
           {"&quot;", "\""}, {"&lt;", "<"}, {"&gt;", ">"}, {"&nbsp;", "\u00a0"}, {"&amp;", "&"}})
    replace(out, escaped, plain);
  return out;
}

/// What the browser's console said of one page, or of none.
std::string complaints_about(const std::string& log, const std::string& name) {
  std::string out;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.find("CONSOLE") != std::string::npos &&
        (line.find(name) != std::string::npos || line.find("/page") == std::string::npos))
      out += line + "\n";
  return out;
}

ShownPage read_page(const std::string& dom) {
  ShownPage page;
  const std::size_t body = dom.find("<main");
  const std::size_t data = dom.find("id=\"report-data\">");
  if (body == std::string::npos || data == std::string::npos)
    throw std::runtime_error("the browser showed nothing: " + dom.substr(0, 200));
  page.data = dom.substr(data + 17, dom.find("</script>", data) - data - 17);
  if (const std::string ready = attribute(dom.substr(0, dom.find('>', dom.find("<html"))), "data-ready");
      !ready.empty())
    page.pictures = std::atoi(ready.c_str());
  const std::string shown = dom.substr(body, data - body);
  for (std::size_t at = 0; (at = shown.find("This picture could not be drawn", at)) != std::string::npos; ++at)
    ++page.failed;
  page.text = plain(shown);
  page.title = plain(shown.substr(shown.find("<h1"), shown.find("</h1>") - shown.find("<h1")));
  read_figures(shown, page);
  read_pictures(shown, page);
  return page;
}

/// What one of a unit is in the JSON. Days are seconds or days, percent a share, GB/s as they stand or bytes.
const std::map<std::string, std::vector<double>>& units() {
  static const std::map<std::string, std::vector<double>> all{
      {"s", {1, 1e6}},      {"ms", {1e-3, 1e3}},
      {"µs", {1e-6, 1}},    {"ns", {1e-9, 1e-3}},
      {"days", {1, 86400}}, {"day", {1, 86400}},
      {"%", {0.01}},        {"GiB", {1073741824.0}},
      {"MiB", {1048576.0}}, {"KiB", {1024.0}},
      {"B", {1}},           {"kB", {1e3}},
      {"MB", {1e6}},        {"GB", {1e9}},
      {"TB", {1e12}},       {"PB", {1e15}},
      {"TFLOP/s", {1e12}},  {"GB/s", {1, 1e9}},
      {"MWh", {1}},         {"million", {1e6}},
      {"h", {1, 3600}},     {"min", {60}},
      {"/s", {1}},          {"", {1, 1e-3, 1e-6, 1e-9, 0.01, 1073741824.0, 1e9, 1e12}}};
  return all;
}

}  // namespace

bool has_browser() { return std::string(REHEARSE_BROWSER) != ""; }

std::vector<ShownPage> show(const std::vector<std::string>& files) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("rehearse_browser_" + std::to_string(getpid()))).string();
  std::filesystem::create_directories(folder);
  std::string names;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::string pointed = text_of(files[i]);
    pointed.insert(pointed.rfind("</body>"), kPointer);
    std::ofstream(folder + "/" + page_name(i), std::ios::binary) << pointed;
    names += "'" + page_name(i) + "',";
  }
  std::string gatherer = kGatherer;
  replace(gatherer, "NAMES", names);
  std::ofstream(folder + "/all.html", std::ios::binary) << gatherer;
  const std::string dom = output_of(
      std::string(REHEARSE_BROWSER) +
      " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --allow-file-access-from-files "
      "--window-size=1400,2000 --user-data-dir='" +
      folder + "/profile' --enable-logging=stderr --v=0 --virtual-time-budget=" + std::to_string(2500 * files.size()) +
      " --dump-dom 'file://" + folder + "/all.html' 2>'" + folder + "/log'");
  const std::string log = text_of(folder + "/log");
  std::filesystem::remove_all(folder);
  std::vector<ShownPage> out;
  for (std::size_t i = 0; i < files.size(); ++i) {
    out.push_back(read_page(gathered(dom, page_name(i))));
    out.back().complaints = complaints_about(log, page_name(i));
  }
  return out;
}

bool says(const std::string& text, double value) {
  std::string number, unit;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' || (c == '-' && number.empty()))
      unit.empty() ? number += c : unit += c;
    else if (c != ',' && c != ' ' && c != '$' && c != '+')
      unit += c;
  }
  const auto known = units().find(unit);
  if (number.empty() || known == units().end()) return false;
  const std::size_t point = number.find('.');
  const double half =
      0.5 * std::pow(10.0, point == std::string::npos ? 0 : -static_cast<double>(number.size() - point - 1));
  for (const double factor : known->second)
    if (std::abs(std::atof(number.c_str()) - value / factor) <= half * 1.0001 + 1e-9 * std::abs(value / factor))
      return true;
  // Whole numbers of more than the digits shown: 151,800 for 151,828 is not said by any page.
  return false;
}

double number_at(const nlohmann::json& data, const std::string& path) {
  const nlohmann::json* at = &data;
  std::istringstream keys(path);
  for (std::string key; std::getline(keys, key, '.');) {
    // A key may hold dots of its own: "figures.time.bubble".
    if (at->is_object() && !at->contains(key))
      for (std::string more; std::getline(keys, more, '.');)
        if (key += "." + more; at->contains(key)) break;
    at = at->is_array() ? &at->at(std::stoul(key)) : &at->at(key);
  }
  return at->get<double>();
}

}  // namespace rehearse::test
