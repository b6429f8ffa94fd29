#include <fstream>

#include <nlohmann/json.hpp>

#include "core/fleet/fair_share.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse::fleet;

namespace {

double number(const nlohmann::json& q, const char* key, double fallback) {
  return !q.contains(key) || q[key].is_null() ? fallback : q[key].get<double>();
}

}  // namespace

TEST_CASE("shares are those of KAI's worked cases, exactly") {
  std::ifstream in(rehearse::testing::source_path("tests/unit/fleet/data/kai_resource_division.json"));
  const nlohmann::json file = nlohmann::json::parse(in);
  CHECK(file["cases"].size() == 86);
  for (const nlohmann::json& c : file["cases"]) {
    CAPTURE(c["name"].get<std::string>());
    std::vector<ShareClaim> claims;
    const double all = std::numeric_limits<double>::infinity();
    for (const nlohmann::json& q : c["queues"])
      claims.push_back({number(q, "deserved", all), number(q, "limit", all), number(q, "weight", 0),
                        number(q, "request", 0), 0, static_cast<int>(number(q, "priority", 0)), number(q, "have", 0)});
    const double total = c["total"].get<double>();
    const double left = c.contains("over_quota_alone") ? divide_over_quota(total, claims) : divide(total, claims);
    if (c.contains("remaining")) CHECK(left == c["remaining"].get<double>());
    for (std::size_t i = 0; i < claims.size(); ++i)
      if (const nlohmann::json& share = c["queues"][i]["share"]; !share.is_null())
        CHECK(claims[i].share == share.get<double>());
  }
}

TEST_CASE("use that lies back lowers a share, and as much as k says") {
  // max(0, w + k (w - usage)) with w = 1/2: 1/2 + (1/2 - 3/4) = 1/4 against 1/2 + (1/2 - 0) = 1; 20 to 4 and 16.
  std::vector<ShareClaim> claims{{.weight = 1, .request = 20, .usage = 0.75}, {.weight = 1, .request = 20}};
  CHECK(divide(20, claims, 1) == 0);
  CHECK(claims[0].share == 4);
  CHECK(claims[1].share == 16);
}
