#include "core/import/protobuf_message.hpp"

#include "core/base/error.hpp"

namespace rehearse {

bool ProtobufMessage::next() {
  if (bytes_.empty()) return false;
  const std::uint64_t tag = varint();
  field = static_cast<int>(tag >> 3);
  wire = static_cast<int>(tag & 7);
  value = 0;
  payload = {};
  switch (wire) {
    case 0: value = varint(); break;
    case 1: value = fixed(8); break;
    case 2: payload = take(varint()); break;
    case 5: value = fixed(4); break;
    default: fail();
  }
  return true;
}

void ProtobufMessage::fail() const { throw Error(ErrorKind::usage, file_.damaged, file_.origin, file_.hint); }

std::uint64_t ProtobufMessage::varint() {
  std::uint64_t out = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    out |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return out;
  }
  fail();
}

std::uint64_t ProtobufMessage::fixed(int bytes) {
  const std::string_view raw = take(static_cast<std::uint64_t>(bytes));
  std::uint64_t out = 0;
  for (std::size_t i = raw.size(); i-- > 0;) out = out << 8 | static_cast<unsigned char>(raw[i]);
  return out;
}

std::string_view ProtobufMessage::take(std::uint64_t bytes) {
  if (bytes > bytes_.size()) fail();
  const std::string_view out = bytes_.substr(0, bytes);
  bytes_.remove_prefix(bytes);
  return out;
}

}  // namespace rehearse
