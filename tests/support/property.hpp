#pragma once
// RapidCheck inside Catch2 test cases.

#include <rapidcheck.h>

#include <string>

#include "tests/support/catch.hpp"

/// Checks a property, a callable whose arguments RapidCheck draws. A counterexample is shrunk and printed; the test
/// case goes on.
template <class Property>
void check_property(const std::string& statement, Property&& property) {
  INFO(statement);
  CHECK(rc::check(statement, std::forward<Property>(property)));
}
