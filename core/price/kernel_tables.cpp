#include "core/price/kernel_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/portable.hpp"
#include "core/config/json_file.hpp"

namespace rehearse {
namespace {

// A CSV without quoting: measurements hold names and numbers only.
class Csv {
 public:
  Csv(std::string text, std::string file) : text_(std::move(text)), file_(std::move(file)) {
    next();
    header_ = fields_;
  }
  bool next() {
    if (at_ >= text_.size()) return false;
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view line(text_.data() + at_, end - at_);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at_ = end + 1;
    ++line_;
    fields_.clear();
    for (std::size_t from = 0; from <= line.size();) {
      const std::size_t to = std::min(line.find(',', from), line.size());
      fields_.push_back(line.substr(from, to - from));
      from = to + 1;
    }
    if (!header_.empty() && fields_.size() != header_.size())
      fail("has " + std::to_string(fields_.size()) + " fields, the header has " + std::to_string(header_.size()));
    return true;
  }
  [[nodiscard]] std::string_view text(std::string_view column) const {
    for (std::size_t i = 0; i < header_.size(); ++i)
      if (header_[i] == column) return fields_[i];
    fail("lacks the column '" + std::string(column) + "'");
  }
  [[nodiscard]] bool has(std::string_view column) const {
    return std::find(header_.begin(), header_.end(), column) != header_.end();
  }
  [[nodiscard]] double number(std::string_view column) const {
    const auto t = text(column);
    double v = 0;
    const auto [end, error] = number_from_chars(t.data(), t.data() + t.size(), v);
    if (error != std::errc{} || end != t.data() + t.size() || !std::isfinite(v) || v < 0)
      fail("has '" + std::string(t) + "' for " + std::string(column) + ", not a number of 0 or more");
    return v;
  }
  [[nodiscard]] std::string id() const { return file_ + ":" + std::to_string(line_); }
  [[noreturn]] void fail(const std::string& what) const { throw Error(ErrorKind::usage, "row " + what, id()); }

 private:
  std::string text_, file_;
  std::vector<std::string_view> header_, fields_;
  std::size_t at_ = 0;
  int line_ = 0;
};

bool first_half(std::string_view key) { return (fnv1a(key) >> 32) % 2 == 0; }

std::string digits(double v) { return std::to_string(std::llround(v)); }

}  // namespace

std::uint64_t fnv1a(std::string_view text, std::uint64_t seed) {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return seed;
}

std::string hex_digits(std::uint64_t hash) {
  std::string out(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4) out[i] = "0123456789abcdef"[hash & 15];
  return out;
}

std::string TableReader::text(const std::string& file) {
  std::string content = read_text((root_ / file).string());
  if (std::none_of(reads_.begin(), reads_.end(), [&](const TableRead& r) { return r.file == file; }))
    reads_.push_back({file, hex_digits(fnv1a(content)), {}});
  return content;
}

void TableReader::use(const std::string& file, const std::string& row) {
  for (auto& read : reads_)
    if (read.file == file) {
      read.rows.insert(row);
      return;
    }
  throw Error(ErrorKind::usage, "row '" + row + "' of a file that was not read", file);
}

std::vector<GemmRow> read_gemms(TableReader& reader, const std::string& file) {
  std::vector<GemmRow> rows;
  for (Csv csv(reader.text(file), file); csv.next();) {
    MeasuredGemm g;
    g.id = csv.id();
    g.shape = {csv.number("batch"), csv.number("m"), csv.number("n"), csv.number("k")};
    const bool zeros = csv.text("source") == "vidur" && csv.text("operator") == "mlp_down_proj";
    g.storage = {csv.number("in_bytes_per_element"), csv.number("out_bytes_per_element"), csv.number("accumulate") > 0,
                 zeros};
    const double time = csv.number("time_us"), host = csv.has("host_us") ? csv.number("host_us") : 0;
    if (host > 0 && host >= time) csv.fail("has a time_us that its host_us leaves nothing of: it must be longer");
    g.time = Seconds{(time - host) * 1e-6};
    rows.push_back({std::string(csv.text("gpu")), std::string(csv.text("source")),
                    csv.text("operator").starts_with("grouped"), std::move(g)});
  }
  return rows;
}

Kernel kernel_of(const GemmRow& row) {
  const GemmStorage& s = row.gemm.storage;
  Kernel k = make_gemm(row.gemm.shape, s.in == 1 ? DType::fp8 : DType::fp16, s.out == 4 ? DType::fp32 : DType::fp16,
                       s.accumulate);
  k.zeros = s.zeros;
  if (row.one_by_one) k.cls = KernelClass::grouped_gemm;
  k.one_by_one = row.one_by_one;
  return k;
}

std::vector<AttentionRow> read_attention(TableReader& reader, const std::string& file) {
  std::vector<AttentionRow> rows;
  for (Csv csv(reader.text(file), file); csv.next();) {
    MeasuredAttention a;
    a.id = csv.text("id");
    const double heads = csv.number("heads"), seq = csv.number("seq"),
                 kv_heads = csv.has("kv_heads") ? csv.number("kv_heads") : heads;
    a.shape = {csv.number("batch"),
               heads,
               kv_heads,
               seq,
               seq,
               csv.number("head_dim"),
               csv.number("causal") > 0,
               csv.has("window") ? csv.number("window") : 0};
    a.with_backward = csv.text("pass") == "fwd+bwd";
    const Flops work = attention_flops(a.shape, false) + (a.with_backward ? attention_flops(a.shape, true) : Flops{});
    if (!csv.has("time_ms") && !csv.has("tflops")) csv.fail("needs a column 'tflops' or 'time_ms'");
    a.time =
        csv.has("time_ms") ? Seconds{csv.number("time_ms") * 1e-3} : work / FlopsPerSecond{csv.number("tflops") * 1e12};
    const std::string implementation(csv.text("implementation"));
    const DType type = implementation.ends_with("_mxfp8") ? DType::mxfp8
                       : implementation.ends_with("_fp8") ? DType::fp8
                                                          : DType::fp16;
    rows.push_back({file, std::string(csv.text("gpu")), implementation, type, std::move(a)});
    rows.back().attention.group = rows.back().implementation + " " + rows.back().gpu;
  }
  return rows;
}

std::string AttentionRow::kernel() const {
  return type == DType::fp16 ? implementation : implementation.substr(0, implementation.rfind('_'));
}

bool in_fit_half(const GemmShape& s) {
  return first_half(digits(s.batch) + "x" + digits(s.m) + "x" + digits(s.n) + "x" + digits(s.k));
}

bool in_fit_half(const MeasuredAttention& row) { return first_half(row.id); }

std::vector<ConvolutionRow> read_convolutions(TableReader& reader, const std::string& file) {
  constexpr std::array<std::pair<ConvolutionPass, const char*>, 3> kPasses{
      {{ConvolutionPass::forward, "forward_us"},
       {ConvolutionPass::input_grad, "input_grad_us"},
       {ConvolutionPass::weight_grad, "weight_grad_us"}}};
  constexpr std::array<const char*, 11> kSizes{"batch",    "height", "width", "in_channels", "out_channels", "kernel_h",
                                               "kernel_w", "pad_h",  "pad_w", "stride_h",    "stride_w"};
  std::vector<ConvolutionRow> rows;
  for (Csv csv(reader.text(file), file); csv.next();) {
    ConvolutionRow row{csv.id(), std::string(csv.text("gpu")), {}, DType::fp16, {}, {}, {}};
    for (const char* size : kSizes) row.layer += std::string(csv.text(size)) + " ";
    if (csv.text("precision") == "fp32") row.type = DType::fp32;
    const auto side = [&](const std::string& length, const std::string& along) {
      return std::floor((csv.number(length) + 2 * csv.number("pad_" + along) - csv.number("kernel_" + along)) /
                        csv.number("stride_" + along)) +
             1;
    };
    ConvolutionShape& s = row.shape;
    s.in = csv.number("in_channels"), s.out = csv.number("out_channels");
    s.window[0] = csv.number("kernel_h"), s.window[1] = csv.number("kernel_w");
    s.output_side[0] = side("height", "h"), s.output_side[1] = side("width", "w");
    s.stride = csv.number("stride_h") * csv.number("stride_w");
    s.dense = s.stride == 1;
    s.m = csv.number("batch") * s.output_side[0] * s.output_side[1];
    row.traffic = Bytes{size_of(row.type) * (csv.number("batch") * csv.number("height") * csv.number("width") * s.in +
                                             s.m * s.out + s.in * s.out * s.window[0] * s.window[1])};
    for (const auto& [pass, column] : kPasses) {
      if (csv.text(column).empty()) continue;
      s.pass = pass;
      row.time = Seconds{csv.number(column) * 1e-6};
      rows.push_back(row);
    }
  }
  return rows;
}

Kernel kernel_of(const ConvolutionRow& row) { return make_convolution(row.shape, row.traffic, Bytes{}, row.type); }

bool in_fit_half(const ConvolutionRow& row) { return first_half(row.layer); }

}  // namespace rehearse
