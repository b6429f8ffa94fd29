#pragma once
// Messages of protobuf, field by field, without their schema (protobuf.dev/programming-guides/encoding): what files of
// other programs are read with, of which a few fields are wanted.
//
//   for (ProtobufMessage m(bytes, file); m.next();)
//     if (m.field == 1) name = m.payload;

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// A file, and what is said of it where its bytes are no messages.
struct ProtobufFile {
  std::string origin, damaged, hint;
};

/// Reads bytes and a file that must outlive it. Throws Error (usage) where a field goes past the end, or is none.
class ProtobufMessage {
 public:
  ProtobufMessage(std::string_view bytes, const ProtobufFile& file) : bytes_(bytes), file_(file) {}

  /// Takes the next field; false at the end.
  bool next();
  /// Whole numbers of a repeated field, packed or one by one, behind those of `out`.
  template <class Number>
  void append_numbers(std::vector<Number>& out) const {
    if (wire == 0) out.push_back(static_cast<Number>(value));
    if (wire != 2) return;
    for (ProtobufMessage packed(payload, file_); !packed.bytes_.empty();)
      out.push_back(static_cast<Number>(packed.varint()));
  }

  int field = 0, wire = 0;   ///< Number of the field; 0: varint, 1: eight bytes, 2: payload, 5: four bytes.
  std::uint64_t value = 0;   ///< Of a varint, or the bits of a fixed number.
  std::string_view payload;  ///< A text, a message or packed numbers.

 private:
  [[noreturn]] void fail() const;
  std::uint64_t varint();
  std::uint64_t fixed(int bytes);
  std::string_view take(std::uint64_t bytes);

  std::string_view bytes_;
  const ProtobufFile& file_;
};

}  // namespace rehearse
