// Traces as PyTorch's tools read them.

#include <zlib.h>

#include <nlohmann/json.hpp>

#include "core/report/pictures/kineto_trace.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/report/plans.hpp"

using namespace rehearse;

namespace {

class Text final : public TextOutput {
 public:
  void write(std::string_view text) override { all += text; }
  void close() override {}
  std::string all;
};

struct Written {
  Cluster cluster = test::one_machine();
  Program program = lower(test::tiny_workload(), test::eight_gpus(), cluster);
  Trace trace{{0, 4}};

  Written() { trace.streams = program.stream_names(); }

  Span& add(int rank, SpanKind kind, double begin, double end) {
    Span s;
    s.rank = rank;
    s.kind = kind;
    s.name = "a \"task\"";
    s.begin = Seconds{begin};
    s.end = Seconds{end};
    return trace.spans.emplace_back(s);
  }

  [[nodiscard]] nlohmann::json json() const {
    Text text;
    write_kineto(trace, program, cluster, "tiny", text);
    return nlohmann::json::parse(text.all);
  }

  [[nodiscard]] nlohmann::json events(const std::string& phase) const {
    auto out = nlohmann::json::array();
    const nlohmann::json whole = json();
    for (const auto& e : whole.at("traceEvents"))
      if (e.at("ph") == phase) out.push_back(e);
    return out;
  }
};

}  // namespace

TEST_CASE("the top level says what Kineto's says", "[kineto]") {
  Written w;
  w.add(0, SpanKind::compute, 0, 1);
  const auto json = w.json();
  CHECK(json.at("schemaVersion") == 1);
  CHECK(json.at("traceName") == "tiny");
  CHECK(json.at("distributedInfo").at("world_size") == 8);
  CHECK(json.at("deviceProperties").at(0).at("numSms") == 108);
  CHECK(json.at("deviceProperties").at(0).at("computeMajor") == 8);
}

TEST_CASE("times are microseconds, and neighbours stay neighbours after rounding", "[kineto]") {
  Written w;
  w.add(0, SpanKind::compute, 0, 1.0 / 3e6);
  w.add(0, SpanKind::compute, 1.0 / 3e6, 1.5e-6);
  const auto events = w.events("X");
  REQUIRE(events.size() == 2);
  const double begin = events[0].at("ts"), length = events[0].at("dur");
  CHECK(begin + length == Approx(events[1].at("ts").get<double>()).margin(1e-9));
  CHECK(events[1].at("ts").get<double>() + events[1].at("dur").get<double>() == Approx(1.5));
  CHECK(events[0].at("cat") == "kernel");
}

TEST_CASE("readers that count from a track's first time, too, find neighbours side by side", "[kineto]") {
  Written w;
  // Of spans as long as these the third ended a bit after the fourth began, once the first's begin was taken from both.
  double begin = 5079e-9;
  for (int i = 0; i < 2000; ++i) {
    const double end = begin + (40216 + 7919 * (i % 97) + i) * 1e-9;
    w.add(0, SpanKind::compute, begin, end);
    begin = end;
  }
  const auto events = w.events("X");
  const double first = events[0].at("ts");
  for (const double from : {0.0, first})
    for (std::size_t i = 0; i + 1 < events.size(); ++i)
      if ((events[i].at("ts").get<double>() - from) + events[i].at("dur").get<double>() >
          events[i + 1].at("ts").get<double>() - from)
        FAIL("span " << i << " ends after the next one begins, counted from " << from);
}

TEST_CASE("a wait has no stream, so that no tool counts it as a kernel", "[kineto]") {
  Written w;
  w.add(0, SpanKind::wait, 0, 1e-3);
  Span& s = w.add(0, SpanKind::collective, 1e-3, 2e-3);
  s.collective = "all_reduce";
  const auto events = w.events("X");
  REQUIRE(events.size() == 2);
  for (const auto& e : events) CHECK(e.at("args").contains("stream") == (e.at("cat") == "kernel"));
}

TEST_CASE("copies and the host's work are named and sorted as PyTorch's tools do", "[kineto]") {
  Written w;
  const auto stream_of = [&](StreamRole role) {
    w.program.streams.push_back({"more", role, {}});
    return static_cast<int>(w.program.streams.size()) - 1;
  };
  w.add(0, SpanKind::copy, 0, 1e-3).stream = stream_of(StreamRole::copy);
  w.add(0, SpanKind::copy, 1e-3, 2e-3).stream = stream_of(StreamRole::copy_out);
  w.add(0, SpanKind::compute, 2e-3, 3e-3).stream = stream_of(StreamRole::host);
  w.add(0, SpanKind::input, 3e-3, 4e-3).stream = stream_of(StreamRole::storage);
  const auto events = w.events("X");
  REQUIRE(events.size() == 4);
  CHECK(events[0].at("name") == "Memcpy HtoD (Pinned -> Device)");
  CHECK(events[1].at("name") == "Memcpy DtoH (Device -> Pinned)");
  for (const auto& e : events) {
    const bool copy = e.at("name").get<std::string>().starts_with("Memcpy");
    CHECK(e.at("cat") == (copy ? "gpu_memcpy" : "cpu_op"));
    CHECK(e.at("args").contains("stream") == copy);
  }
}

TEST_CASE("a message names the rank at its other end", "[kineto]") {
  Written w;
  w.add(0, SpanKind::send, 0, 1e-3).peer = 4;
  w.add(4, SpanKind::receive, 0, 1e-3).peer = 0;
  const auto events = w.events("X");
  CHECK(events.at(0).at("args").at("Dst Rank") == 4);
  CHECK(events.at(1).at("args").at("Src Rank") == 0);
}

TEST_CASE("a collective names its group and counts elements at both sides", "[kineto]") {
  Written w;
  Span& s = w.add(0, SpanKind::collective, 0, 1e-3);
  s.collective = "all_gather";
  s.group = "tp";
  s.group_size = 2;
  s.dtype = DType::bf16;
  s.bytes = Bytes{4096};
  const nlohmann::json args = w.events("X").at(0).at("args");
  CHECK(args.at("Collective name") == "_allgather_base");
  CHECK(args.at("In msg nelems") == 1024);
  CHECK(args.at("Out msg nelems") == 2048);
  CHECK(args.at("Group size") == 2);
  CHECK(args.at("dtype") == "BFloat16");
  CHECK(args.at("Process Group Name") == "tp");
  CHECK(args.at("Process Group Ranks") == "[0, 1]");
}

TEST_CASE("an arrow joins the two ends of a message, and a single end has none", "[kineto]") {
  Written w;
  w.add(0, SpanKind::send, 0, 1e-3).message = 7;
  w.add(4, SpanKind::receive, 0, 1e-3).message = 7;
  w.add(0, SpanKind::send, 1e-3, 2e-3).message = 8;
  REQUIRE(w.events("s").size() == 1);
  REQUIRE(w.events("f").size() == 1);
  const nlohmann::json from = w.events("s").at(0), to = w.events("f").at(0);
  CHECK(from.at("id") == to.at("id"));
  CHECK(to.at("pid") == 4);
}

TEST_CASE("processes and threads are named after ranks and streams", "[kineto]") {
  Written w;
  w.add(4, SpanKind::compute, 0, 1);
  std::string process, thread;
  const nlohmann::json metadata = w.events("M");
  for (const auto& e : metadata) {
    if (e.at("name") == "process_name") process = e.at("args").at("name");
    if (e.at("name") == "thread_name") thread = e.at("args").at("name");
  }
  CHECK(process == "rank 4 (stage 1)");
  CHECK(thread == "compute");
}

TEST_CASE("a name that ends in .gz is compressed, and equal text gives equal bytes", "[output]") {
  const auto bytes_of = [](const std::string& path) {
    const auto out = open_output(path);
    out->write("{\"traceEvents\": []}");
    out->close();
    std::string content(256, '\0');
    std::FILE* file = std::fopen(path.c_str(), "rb");
    content.resize(std::fread(content.data(), 1, content.size(), file));
    std::fclose(file);
    return content;
  };
  const std::string first = bytes_of("one.json.gz"), second = bytes_of("two.json.gz");
  CHECK(first.substr(0, 2) == "\x1f\x8b");
  CHECK(first == second);
  gzFile file = gzopen("one.json.gz", "rb");
  char text[64] = {};
  CHECK(gzread(file, text, sizeof text) == 19);
  gzclose(file);
  CHECK(std::string(text) == "{\"traceEvents\": []}");
  std::remove("one.json.gz");
  std::remove("two.json.gz");
}

TEST_CASE("a file that cannot be made is an error that names it", "[output]") {
  CHECK_THROWS_AS(open_output("no/such/folder/file.json"), Error);
  CHECK_THROWS_AS(open_output("no/such/folder/file.json.gz"), Error);
}
