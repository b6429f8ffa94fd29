#pragma once
// Catch2 2.13 (Debian 12) and 3 (Debian 13) behind one include, in the words of version 3.
#ifdef REHEARSE_CATCH2_V3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <string>

#include <catch2/catch.hpp>

namespace Catch::Matchers {

/// What version 2 calls Contains.
inline StdString::ContainsMatcher ContainsSubstring(const std::string& text) { return Contains(text); }

}  // namespace Catch::Matchers
#endif
