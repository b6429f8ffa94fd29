// A registry's listing must not depend on the order in which the linker ran the registrations.
#include <algorithm>
#include <set>

#include "core/base/registry.hpp"
#include "tests/support/property.hpp"

using namespace rehearse;

namespace {

std::string any_name() { return *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange('a', 'f'))); }

Registry<int> registry_of(const std::vector<std::string>& names) {
  Registry<int> registry("thing");
  for (std::size_t i = 0; i < names.size(); ++i) registry.add({names[i], "", {}, static_cast<int>(i)});
  return registry;
}

}  // namespace

TEST_CASE("entries are listed by name whatever the order of registration") {
  check_property("names() is the sorted set of the names added", [] {
    const auto wanted = *rc::gen::container<std::set<std::string>>(rc::gen::exec(any_name));
    std::vector<std::string> names(wanted.begin(), wanted.end());
    for (std::size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[*rc::gen::inRange<std::size_t>(0, i)]);
    RC_ASSERT(registry_of(names).names() == std::vector<std::string>(wanted.begin(), wanted.end()));
  });
}

TEST_CASE("a name registers once") {
  check_property("adding a name again throws and keeps the first entry", [] {
    const auto name = any_name();
    auto registry = registry_of({name});
    RC_ASSERT_THROWS_AS(registry.add({name, "", {}, 1}), std::logic_error);
    RC_ASSERT(registry.entries().size() == 1);
    RC_ASSERT(registry.entries().front().value == 0);
  });
}
