#pragma once
// What the build knows of itself.

namespace rehearse {

/// "0.1.0": of this library, as CMake's project() states it.
[[nodiscard]] const char* rehearse_version();
/// The source tree that this library was built from, which may be gone.
[[nodiscard]] const char* source_directory();

}  // namespace rehearse
