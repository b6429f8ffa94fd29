// Files of tensors: the format's own rules, from its description (github.com/huggingface/safetensors, "Format").

#include "tests/support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/weights/safetensors.hpp"
#include "core/weights/safetensors_writer.hpp"
#include "core/weights/weight_files.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse {
namespace {

std::string as_file(const std::string& header, const std::string& data) {
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}

void put(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// What a file with this header and so many bytes is refused for.
std::string refusal(const std::string& header, std::size_t bytes) {
  const test::Folder folder("safetensors");
  put(folder.path() / "x.safetensors", as_file(header, std::string(bytes, '\0')));
  try {
    const SafetensorsFile file((folder.path() / "x.safetensors").string());
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::usage);
    return e.what();
  }
  return "accepted";
}

bool mentions(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

}  // namespace

TEST_CASE("a file of tensors holds what was written") {
  const test::Folder folder("safetensors");
  const std::string path = (folder.path() / "w.safetensors").string();
  {
    SafetensorsWriter out(path, WeightsType::real32, {{"b", {2, 3}}, {"a", {}}}, {{"format", "pt"}});
    out.put(std::vector<double>{1, 2, 3, 4, 5, 0.1});
    CHECK_FALSE(std::filesystem::exists(path));  // Not before it is whole.
    out.put(std::vector<double>{-7});
    out.close();
  }
  SafetensorsFile file(path);
  REQUIRE(file.tensors().size() == 2);
  const StoredWeights* b = file.find("b");
  REQUIRE(b != nullptr);
  CHECK(b->shape == std::vector<std::int64_t>{2, 3});
  CHECK(b->first % 8 == 0);
  std::vector<double> part(2);
  file.read(*b, 4, part);
  CHECK(part == std::vector<double>{5, static_cast<double>(0.1F)});
  file.read(*file.find("a"), 0, std::span(part).first(1));
  CHECK(part[0] == -7);
  CHECK(file.find("c") == nullptr);
}

TEST_CASE("a file that was not finished is not there") {
  const test::Folder folder("safetensors");
  const std::string path = (folder.path() / "w.safetensors").string();
  {
    SafetensorsWriter out(path, WeightsType::real64, {{"a", {2}}}, {});
    out.put(std::vector<double>{1});
    CHECK_THROWS_AS(out.close(), std::logic_error);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("16-bit numbers are read as what they are") {
  const test::Folder folder("safetensors");
  const std::string path = (folder.path() / "w.safetensors").string();
  // IEEE half: 1, -2, 65504, 2^-24, infinity; bfloat16: 1, -0.5.
  const std::string half("\x00\x3c\x00\xc0\xff\x7b\x01\x00\x00\x7c", 10), brain("\x80\x3f\x00\xbf", 4);
  put(path, as_file(R"({"h":{"dtype":"F16","shape":[5],"data_offsets":[0,10]},)"
                    R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[10,14]}})",
                    half + brain));
  SafetensorsFile file(path);
  std::vector<double> h(5), b(2);
  file.read(*file.find("h"), 0, h);
  file.read(*file.find("b"), 0, b);
  CHECK(h == std::vector<double>{1, -2, 65504, std::ldexp(1, -24), std::numeric_limits<double>::infinity()});
  CHECK(b == std::vector<double>{1, -0.5});
  std::vector<std::int64_t> whole(2);
  CHECK_THROWS_AS(file.read(*file.find("b"), 0, whole), Error);
}

TEST_CASE("a header that does not fit its bytes is refused") {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK(refusal(good, 8) == "accepted");
  CHECK(mentions(refusal(good, 7), "ends 1 bytes before"));
  CHECK(mentions(refusal(good, 9), "belong to no tensor"));
  CHECK(mentions(refusal(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "hold no F32"));
  CHECK(mentions(refusal(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8), "unknown type"));
  CHECK(mentions(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "first byte"));
  CHECK(
      mentions(refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8), "hold no"));
  CHECK(mentions(refusal(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", 0), "-1"));
  CHECK(mentions(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                         12),
                 "inside the tensor before"));
  CHECK(mentions(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})",
                         20),
                 "4 bytes before 'b'"));
  CHECK(refusal("[]", 0) != "accepted");
  CHECK(refusal(R"({"a":{}})", 0) != "accepted");
  CHECK(refusal(R"({"__metadata__":{"format":"pt"}})", 0) == "accepted");
}

TEST_CASE("what is no such file is refused before its length is believed") {
  const test::Folder folder("safetensors");
  put(folder.path() / "short", "1234567");
  put(folder.path() / "long", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + "{}");
  put(folder.path() / "text", "PK\x03\x04 and so on, as a zip of PyTorch's begins");
  for (const char* name : {"short", "long", "text", "none"})
    CHECK_THROWS_AS(SafetensorsFile((folder.path() / name).string()), Error);
}

TEST_CASE("an index says which file has which tensor") {
  const test::Folder folder("safetensors");
  for (const char* name : {"one", "two"}) {
    SafetensorsWriter out((folder.path() / name).string() + ".safetensors", WeightsType::real32, {{name, {1}}}, {});
    out.put(std::vector<double>{1});
    out.close();
  }
  const std::filesystem::path index = folder.path() / "model.safetensors.index.json";
  put(index, R"({"metadata": {}, "weight_map": {"one": "one.safetensors", "two": "two.safetensors"}})");
  WeightFiles files(folder.path().string());
  CHECK(files.find("two").has_value());
  CHECK(files.names() == std::vector<std::string>{"one", "two"});
  put(index, R"({"weight_map": {"three": "two.safetensors"}})");
  CHECK_THROWS_AS(WeightFiles(index.string()), Error);
  put(index, R"({"weight_map": {"one": "../one.safetensors"}})");
  CHECK_THROWS_AS(WeightFiles(index.string()), Error);
}

}  // namespace rehearse
