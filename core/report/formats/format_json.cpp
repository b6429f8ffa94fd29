// "json": for programs; every document carries its own schema and version.

#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {

[[maybe_unused]] const bool registered_format_json =
    formats().add({"json", "for programs, byte-identical for equal input", {}, [](const Document& d, const TextStyle&) {
                     return d.json;
                   }});

}  // namespace

}  // namespace rehearse
