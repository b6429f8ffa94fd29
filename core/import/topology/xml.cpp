#include "core/import/topology/xml.hpp"

#include <cstring>
#include <optional>

#include <expat.h>
#include <fmt/format.h>

#include "core/base/error.hpp"

namespace rehearse {
namespace {

struct FreeParser {
  void operator()(XML_ParserStruct* parser) const { XML_ParserFree(parser); }
};

/// Builds the tree from expat's events. No exception may pass through expat: the first error is kept and the parser
/// stopped.
class Builder {
 public:
  Builder(std::string origin, const XmlLimits& limits)
      : parser_(XML_ParserCreate(nullptr)), origin_(std::move(origin)), limits_(limits) {
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(parser_.get(), on_start, on_end);
    XML_SetStartDoctypeDeclHandler(parser_.get(), on_doctype);
  }

  XmlElement parse(std::string_view text) {
    constexpr std::size_t kPiece = 1 << 20;
    bool well_formed = true;
    for (std::size_t at = 0; well_formed && !error_; at += kPiece) {
      const std::string_view piece = text.substr(std::min(at, text.size()), kPiece);
      const bool last = at + kPiece >= text.size();
      well_formed = XML_Parse(parser_.get(), piece.data(), static_cast<int>(piece.size()), last) == XML_STATUS_OK;
      if (last) break;
    }
    if (error_) throw Error(*error_);
    if (!well_formed)
      throw Error(ErrorKind::usage, fmt::format("not XML: {}", XML_ErrorString(XML_GetErrorCode(parser_.get()))),
                  where());
    return std::move(root_.children.front());
  }

 private:
  static void on_start(void* self, const char* name, const char** attributes) {
    static_cast<Builder*>(self)->start(name, attributes);
  }
  static void on_end(void* self, const char*) { static_cast<Builder*>(self)->open_.pop_back(); }
  static void on_doctype(void* self, const char*, const char*, const char*, int) {
    static_cast<Builder*>(self)->refuse(
        "a document type declaration: it could declare entities, which no description of a machine needs");
  }

  [[nodiscard]] std::string where() const {
    return fmt::format("{}:{}", origin_, XML_GetCurrentLineNumber(parser_.get()));
  }

  void refuse(const std::string& what) {
    if (!error_) error_.emplace(ErrorKind::usage, what, where(), "is this the right file?");
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  void start(const char* name, const char** attributes) {
    if (static_cast<int>(open_.size()) > limits_.depth)
      return refuse(fmt::format("more than {} elements inside each other", limits_.depth));
    if (++elements_ > limits_.elements) return refuse(fmt::format("more than {} elements", limits_.elements));
    XmlElement element{name, static_cast<int>(XML_GetCurrentLineNumber(parser_.get())), {}, {}};
    for (; *attributes != nullptr; attributes += 2) {
      if (static_cast<int>(element.attributes.size()) == limits_.attributes)
        return refuse(fmt::format("more than {} attributes of one element", limits_.attributes));
      if (std::strlen(attributes[1]) > limits_.text)
        return refuse(fmt::format("an attribute of more than {} bytes", limits_.text));
      element.attributes.emplace_back(attributes[0], attributes[1]);
    }
    auto& siblings = open_.back()->children;
    siblings.push_back(std::move(element));
    open_.push_back(&siblings.back());  // Its siblings come only after it is closed: the pointer holds that long.
  }

  std::unique_ptr<XML_ParserStruct, FreeParser> parser_;
  std::string origin_;
  XmlLimits limits_;
  XmlElement root_;
  std::vector<XmlElement*> open_{&root_};
  int elements_ = 0;
  std::optional<Error> error_;
};

}  // namespace

bool XmlElement::has(std::string_view attribute) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return true;
  return false;
}

std::string XmlElement::text(std::string_view attribute, const std::string& fallback) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return value;
  return fallback;
}

XmlElement parse_xml(std::string_view text, const std::string& origin, const XmlLimits& limits) {
  return Builder(origin, limits).parse(text);
}

}  // namespace rehearse
