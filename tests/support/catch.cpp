// The translation unit that precompiled headers of tests belong to.
#include "tests/support/catch.hpp"
