#pragma once
// Catch2 2.13 (Debian 12) and 3 (Debian 13) behind one include.
#ifdef REHEARSE_CATCH2_V3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
