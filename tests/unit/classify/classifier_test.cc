// SPDX-License-Identifier: BSD-3-Clause
#include "classify/classifier.h"

#include <gtest/gtest.h>

#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frame_builder.h"

namespace weir {
namespace {

using test::address;
using Kind = Dimension::Kind;

Dimension by(Kind kind, std::string name = {}) { return {kind, 32, 64, std::move(name)}; }

Rule rule(Match match, std::vector<Dimension> key = {}) {
  Rule result;
  result.match = std::move(match);
  result.key = std::move(key);
  result.limit = 1;
  result.interval = std::chrono::seconds(1);
  return result;
}

Match for_path(std::string path) { return {{}, {}, std::move(path), {}}; }
Match for_host(std::string host) { return {{}, std::move(host), {}, {}}; }
Match for_methods(std::vector<std::string> methods) { return {std::move(methods), {}, {}, {}}; }
Match for_ports(std::vector<std::uint16_t> ports) { return {{}, {}, {}, std::move(ports)}; }

Request get(std::string_view target, std::string_view host = "example.com") {
  Request request;
  request.source = address("203.0.113.7");
  request.destination = address("198.51.100.1");
  request.source_port = 40000;
  request.destination_port = 80;
  request.protocol = "http/1.1";
  request.method = "GET";
  request.target = target;
  request.host = host;
  return request;
}

std::vector<RuleIndex> matching(const Classifier& classifier, const Request& request) {
  Classifier::Scratch scratch;
  classifier.match(request, scratch);
  return {scratch.rules.begin(), scratch.rules.begin() + static_cast<std::ptrdiff_t>(scratch.rule_count)};
}

bool applies(const Match& match, const Request& request) {
  const std::vector<Rule> rules{rule(match)};
  return !matching(Classifier(rules), request).empty();
}

std::string key(const std::vector<Dimension>& dimensions, const Request& request, const Match& match = {}) {
  const std::vector<Rule> rules{rule(match, dimensions)};
  const Classifier classifier(rules);
  Classifier::Scratch scratch;
  classifier.match(request, scratch);
  EXPECT_EQ(scratch.rule_count, 1u) << "the rule under test must apply";
  KeyBytes bytes;
  classifier.make_key(0, request, scratch, bytes);
  return key_name("r", bytes.bytes());
}

using Rules = std::vector<RuleIndex>;

TEST(ClassifierMatch, AppliesARuleWithoutAMatchToEverything) {
  EXPECT_TRUE(applies({}, get("/")));
  EXPECT_TRUE(applies({}, Request{}));
}

TEST(ClassifierMatch, ComparesMethodsExactly) {
  EXPECT_TRUE(applies(for_methods({"POST", "GET"}), get("/")));
  EXPECT_FALSE(applies(for_methods({"POST"}), get("/")));
  EXPECT_FALSE(applies(for_methods({"get"}), get("/"))) << "methods are case-sensitive";
}

TEST(ClassifierMatch, ComparesHostsInAnySpelling) {
  for (const auto host : {"example.com", "EXAMPLE.com", "example.com:8080", "example.com."})
    EXPECT_TRUE(applies(for_host("example.com"), get("/", host))) << host;
  for (const auto host : {"", "www.example.com", "example.org", "xexample.com", "example.com.evil.net"})
    EXPECT_FALSE(applies(for_host("example.com"), get("/", host))) << host;
}

TEST(ClassifierMatch, ComparesSubdomains) {
  for (const auto host : {"www.example.com", "a.b.EXAMPLE.com:80", "x.example.com."})
    EXPECT_TRUE(applies(for_host("*.example.com"), get("/", host))) << host;
  for (const auto host : {"example.com", ".example.com", "wwwexample.com", "", "www.example.com.evil.net"})
    EXPECT_FALSE(applies(for_host("*.example.com"), get("/", host))) << host;
}

TEST(ClassifierMatch, ComparesPorts) {
  EXPECT_TRUE(applies(for_ports({8080, 80}), get("/")));
  EXPECT_FALSE(applies(for_ports({8080}), get("/")));
}

TEST(ClassifierMatch, NeedsAllOfAMatch) {
  const Match all{{"GET"}, "example.com", "/login", {80}};
  EXPECT_TRUE(applies(all, get("/login")));
  Request other = get("/login");
  other.method = "POST";
  EXPECT_FALSE(applies(all, other));
  EXPECT_FALSE(applies(all, get("/login", "other")));
  EXPECT_FALSE(applies(all, get("/logout")));
  other = get("/login");
  other.destination_port = 81;
  EXPECT_FALSE(applies(all, other));
}

TEST(ClassifierMatch, IsNotEvadedBySpellings) {
  for (const auto target :
       {"/login", "/login/", "//login", "/%6cogin", "/%6Cogin?x=1", "/./login", "/x/../login",
        "/x/%2e%2e/login", "/login#f", "/login?", "http://other.example/login", "/%2flogin", "/login%2f",
        "/login/.", "/login/x/.."}) {
    EXPECT_TRUE(applies(for_path("/login"), get(target))) << target;
  }
  const std::string padding(3000, 'x');
  EXPECT_TRUE(applies(for_path("/login"), get("/" + padding + "/../login")));
  for (const auto target : {"/Login", "/loginx", "/login/x", "/", "*", "", "/%256cogin"})
    EXPECT_FALSE(applies(for_path("/login"), get(target))) << target;
}

TEST(ClassifierMatch, GivesConnectNoPath) {
  Request connect = get("example.com:443");
  connect.method = "CONNECT";
  EXPECT_FALSE(applies(for_path("/**"), connect));
  EXPECT_TRUE(applies({}, connect));
  connect.target = "/login";
  EXPECT_TRUE(applies(for_path("/login"), connect)) << "that is no authority";
}

TEST(ClassifierMatch, ListsAllRulesThatApplyInOrder) {
  const std::vector<Rule> rules{rule(for_path("/users/**")), rule(for_path("/login")), rule({}),
                                rule(for_path("/users/{id}")), rule(for_path("/*/5"))};
  const Classifier classifier(rules);
  EXPECT_EQ(matching(classifier, get("/users/5")), (Rules{0, 2, 3, 4}));
  EXPECT_EQ(matching(classifier, get("/users")), (Rules{0, 2}));
  EXPECT_EQ(matching(classifier, get("/x")), Rules{2});
}

TEST(ClassifierMatch, TellsSegmentsApartThatShareTheirBeginning) {
  const std::vector<Rule> rules{rule(for_path("/long-segment-a")), rule(for_path("/long-segment-b")),
                                rule(for_path("/long-segment-a-longer"))};
  const Classifier classifier(rules);
  EXPECT_EQ(matching(classifier, get("/long-segment-a")), Rules{0});
  EXPECT_EQ(matching(classifier, get("/long-segment-b")), Rules{1});
  EXPECT_EQ(matching(classifier, get("/long-segment-a-longer")), Rules{2});
  EXPECT_TRUE(matching(classifier, get("/long-segment-c")).empty());
}

TEST(ClassifierMatch, CutsTheListAtTheMostThereMayBeAndSaysSo) {
  const std::vector<Rule> rules(max_rules_per_request + 1, rule({}));
  const Classifier classifier(rules);
  Classifier::Scratch scratch;
  classifier.match(get("/"), scratch);
  EXPECT_EQ(scratch.rule_count, max_rules_per_request);
  EXPECT_TRUE(scratch.rules_cut);
  EXPECT_EQ(scratch.rules.back(), max_rules_per_request - 1) << "the first ones count";

  const Classifier just_enough{std::span<const Rule>(rules).first(max_rules_per_request)};
  just_enough.match(get("/"), scratch);
  EXPECT_EQ(scratch.rule_count, max_rules_per_request);
  EXPECT_FALSE(scratch.rules_cut);
}

TEST(ClassifierMatch, MatchesWhatFitsOfAnOverlongPath) {
  const std::string endless = "/users/" + std::string(20000, 'x');
  EXPECT_TRUE(applies(for_path("/users/{id}"), get(endless)));
  EXPECT_FALSE(applies(for_path("/users"), get(endless)));
}

// A server's longest request line: nginx and Apache take 8 KiB, HAProxy and Node.js up to 16.
TEST(ClassifierMatch, LooksAtAsMuchOfAPathAsServersTake) {
  for (const std::string_view spelling : {"/users/", "//users/", "/%75sers/"})
    for (const std::size_t length : {5000, 8192, 16000}) {
      const std::string target = std::string(spelling) + std::string(length, 'x') + "/login";
      EXPECT_TRUE(applies(for_path("/users/{id}/login"), get(target))) << spelling << length;
      EXPECT_FALSE(applies(for_path("/users/{id}"), get(target))) << spelling << length;
    }
}

TEST(ClassifierMatch, KnowsTheDomainOfAnOverlongHost) {
  for (const std::string_view domain : {".example.com", ".EXAMPLE.com.:80"}) {
    Match of_domain;
    of_domain.host = "*.example.com";
    EXPECT_TRUE(applies(of_domain, get("/", std::string(1000, 'x') + std::string(domain)))) << domain;
  }
}

TEST(ClassifierMatch, WorksWithoutRulesAndAfterAMove) {
  Classifier none{std::span<const Rule>{}};
  EXPECT_TRUE(matching(none, get("/")).empty());
  const std::vector<Rule> rules{rule({})};
  Classifier from(rules);
  Classifier to(std::move(from));
  EXPECT_EQ(matching(to, get("/")), Rules{0});
  none = std::move(to);
  EXPECT_EQ(matching(none, get("/")), Rules{0});
}

TEST(ClassifierMatch, JudgesRulesWithTheSameMatchAlike) {
  const Match get_a{{"GET"}, {}, "/a/**", {}};
  const Match post_a{{"POST"}, {}, "/a/**", {}};
  const std::vector<Rule> rules{rule(get_a), rule(get_a), rule(post_a), rule(get_a), rule({}), rule(get_a)};
  const Classifier classifier(rules);
  EXPECT_EQ(matching(classifier, get("/a/b")), (Rules{0, 1, 3, 4, 5}));
  Request post = get("/a/b");
  post.method = "POST";
  EXPECT_EQ(matching(classifier, post), (Rules{2, 4}));
  EXPECT_EQ(matching(classifier, get("/b")), Rules{4});
}

TEST(ClassifierMatch, ShowsTheNormalisedParts) {
  const std::vector<Rule> rules{rule({}, {by(Kind::host), by(Kind::path)})};
  const Classifier classifier(rules);
  Classifier::Scratch scratch;
  classifier.match(get("/a/../B%20c/?x", "WWW.Example.com:80"), scratch);
  EXPECT_EQ(scratch.path, "/B c/");
  EXPECT_EQ(scratch.host, "www.example.com");
}

TEST(ClassifierMatch, DoesNotNormaliseWhatNoRuleLooksAt) {
  const std::vector<Rule> rules{rule({}, {by(Kind::method)})};
  const Classifier classifier(rules);
  Classifier::Scratch scratch;
  classifier.match(get("/a", "example.com"), scratch);
  EXPECT_EQ(scratch.path, "");
  EXPECT_EQ(scratch.host, "");
}

TEST(ClassifierKey, IsTheRulesAloneWithoutDimensions) { EXPECT_EQ(key({}, get("/")), "r"); }

TEST(ClassifierKey, MasksAddresses) {
  EXPECT_EQ(key({by(Kind::source_address)}, get("/")), "r|203.0.113.7");
  EXPECT_EQ(key({{Kind::source_address, 24, 64, {}}}, get("/")), "r|203.0.113.0/24");
  EXPECT_EQ(key({by(Kind::destination_address)}, get("/")), "r|198.51.100.1");
  Request ipv6 = get("/");
  ipv6.source = address("2001:db8:1:2:3::4");
  EXPECT_EQ(key({by(Kind::source_address)}, ipv6), "r|2001:db8:1:2::/64");
}

TEST(ClassifierKey, TakesPortMethodHostAndPath) {
  EXPECT_EQ(key({by(Kind::destination_port), by(Kind::method), by(Kind::host), by(Kind::path)},
                get("//a/%62?x", "Example.com:80")),
            "r|80|GET|example.com|/a/b");
}

TEST(ClassifierKey, GivesAPathWithAndWithoutASlashAtTheEndOneKey) {
  EXPECT_EQ(key({by(Kind::path)}, get("/login/")), key({by(Kind::path)}, get("/login")));
  EXPECT_EQ(key({by(Kind::path)}, get("/")), "r|/");
}

TEST(ClassifierKey, TakesPathVariables) {
  const Match match = for_path("/users/{id}/orders/{order}");
  const std::vector<Dimension> dimensions{by(Kind::path_variable, "order"), by(Kind::path_variable, "id")};
  EXPECT_EQ(key(dimensions, get("/users/5/orders/77"), match), "r|77|5");
  EXPECT_EQ(key(dimensions, get("/users/5/orders/77/"), match), "r|77|5");
  EXPECT_EQ(key(dimensions, get("//users/%35/x/../orders/7%2537?q"), match), "r|7%2537|5");
  EXPECT_EQ(key({by(Kind::path_variable, "t")}, get("/x/y/z"), for_path("/{t}/**")), "r|x");
}

TEST(ClassifierKey, TakesHeadersAsSentAndTrimmed) {
  const Header headers[] = {{"Cookie", "c"}, {"X-Api-Key", "\t Key-1 "}, {"x-api-key", "second"}};
  Request request = get("/");
  request.headers = headers;
  EXPECT_EQ(key({by(Kind::header, "x-api-key")}, request), "r|Key-1");
}

TEST(ClassifierKey, TellsAnAbsentHeaderFromAnEmptyOne) {
  Request request = get("/");
  EXPECT_EQ(key({by(Kind::header, "x-api-key")}, request), "r|-");
  const Header headers[] = {{"X-Api-Key", ""}};
  request.headers = headers;
  EXPECT_EQ(key({by(Kind::header, "x-api-key")}, request), "r|");
}

TEST(ClassifierKey, ReadsWhatIsUnknownAsAbsent) {
  const std::vector<Dimension> all{by(Kind::source_address),
                                   by(Kind::destination_address),
                                   by(Kind::destination_port),
                                   by(Kind::method),
                                   by(Kind::host),
                                   by(Kind::path),
                                   by(Kind::path_variable, "id"),
                                   by(Kind::header, "x")};
  EXPECT_EQ(key(all, Request{}), "r|-|-|-|-|-|-|-|-");
}

TEST(ClassifierKey, GivesDifferentOverlongHeadersDifferentKeys) {
  const std::string first(4000, 'x');
  const std::string second = first + "y";
  Request request = get("/");
  const Header one[] = {{"x", first}};
  const Header other[] = {{"x", second}};
  request.headers = one;
  const std::string name = key({by(Kind::header, "x")}, request);
  request.headers = other;
  EXPECT_NE(key({by(Kind::header, "x")}, request), name);
}

TEST(ClassifierKey, HasTheNumberOfItsBytes) {
  constexpr unsigned seed = 41;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const KeyHash hash({1, 2});
  constexpr Kind kinds[] = {Kind::source_address,
                            Kind::destination_address,
                            Kind::destination_port,
                            Kind::method,
                            Kind::host,
                            Kind::path,
                            Kind::path_variable,
                            Kind::header};
  const auto some_text = [&](std::size_t longest) {
    std::string text(random() % longest, '\0');
    for (char& c : text) c = static_cast<char>('a' + random() % 26);
    return text;
  };
  for (int i = 0; i < 3000; ++i) {
    std::vector<Dimension> dimensions;
    const bool of_texts = random() % 2 == 0;
    for (std::size_t count = random() % (max_dimensions + 1); count != 0; --count) {
      const Kind kind = kinds[of_texts ? 3 + random() % 5 : random() % std::size(kinds)];
      dimensions.push_back(by(kind, kind == Kind::path_variable ? "v" : kind == Kind::header ? "x-key" : ""));
      dimensions.back().ipv4_bits = static_cast<std::uint8_t>(random() % 33);
      dimensions.back().ipv6_bits = static_cast<std::uint8_t>(random() % 129);
    }
    const std::vector<Rule> rules{rule({}), rule(for_path("/{v}/**"), dimensions)};
    const Classifier classifier(rules);
    const std::size_t longest = random() % 4 == 0 ? 300 : 40;
    const std::string target = "/" + some_text(longest) + "x/" + some_text(longest);
    const std::string host = some_text(longest);
    const std::string value = some_text(longest);
    const std::vector<Header> headers(random() % 2, Header{"X-Key", value});
    Request request = get(target, host);
    request.headers = headers;
    for (IpAddress* const address : {&request.source, &request.destination}) {
      constexpr IpAddress::Family families[] = {IpAddress::Family::none, IpAddress::Family::v4,
                                                IpAddress::Family::v6};
      *address = {};
      address->family = families[random() % 3];
      const std::size_t length = address->family == IpAddress::Family::v6   ? 16
                                 : address->family == IpAddress::Family::v4 ? 4
                                                                            : 0;
      for (std::size_t at = 0; at < length; ++at) address->bytes[at] = static_cast<std::uint8_t>(random());
    }
    request.destination_port = static_cast<std::uint16_t>(random() % 3 == 0 ? 0 : random());
    Classifier::Scratch scratch;
    classifier.match(request, scratch);
    ASSERT_EQ(scratch.rule_count, 2u);
    KeyBytes key;
    classifier.make_key(1, request, scratch, key);
    ASSERT_EQ(classifier.hash_key(1, request, scratch, hash), hash(1, key.bytes())) << "key " << i;
  }
}

TEST(ClassifierHeaders, AreThoseOfAllRulesOnce) {
  const std::vector<Rule> rules{rule({}, {by(Kind::header, "x-api-key"), by(Kind::method)}),
                                rule({}, {by(Kind::header, "authorization")}),
                                rule({}, {by(Kind::header, "x-api-key")})};
  const Classifier classifier(rules);
  ASSERT_EQ(classifier.headers().size(), 2u);
  EXPECT_EQ(classifier.headers()[0], "x-api-key");
  EXPECT_EQ(classifier.headers()[1], "authorization");
}

TEST(ClassifierHeaders, LeaveOutTheHostWhereNoRuleLooksAtIt) {
  const auto host_for = [](const Rule& one) {
    const std::vector<Rule> rules{one};
    const Classifier classifier(rules);
    HttpRequests requests("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", classifier.headers());
    ParsedRequest parsed;
    EXPECT_TRUE(requests.next(parsed));
    return std::string(parsed.request.host);
  };
  EXPECT_EQ(host_for(rule({}, {by(Kind::path), by(Kind::header, "host")})), "");
  EXPECT_EQ(host_for(rule({}, {by(Kind::host)})), "a");
  EXPECT_EQ(host_for(rule(for_host("a"))), "a");
}

TEST(ClassifierMatch, TakesTheShapeOfATargetFromTheParserForThatTargetAlone) {
  const std::vector<Rule> rules{rule(for_path("/a/{b}"))};
  const Classifier classifier(rules);
  const std::string payload = "GET /a/b?c HTTP/1.1\r\n\r\n";
  HttpRequests requests(payload, classifier.headers());
  ParsedRequest parsed;
  ASSERT_TRUE(requests.next(parsed));
  Request request = parsed.request;
  EXPECT_EQ(matching(classifier, request), Rules{0});
  request.target = "/a/c/d";
  EXPECT_EQ(matching(classifier, request), Rules{}) << "another target in its place";
  request.target = parsed.request.target.substr(0, 2);
  EXPECT_EQ(matching(classifier, request), Rules{}) << "a part of it";
}

// One resource, every spelling: whatever an attacker does to the target, the rule applies and the key stays.
TEST(ClassifierProperty, OneResourceIsOneKeyHoweverItIsSpelt) {
  constexpr unsigned seed = 23;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const Match match{{}, "example.com", "/api/{tenant}/login", {}};
  const std::vector<Dimension> dimensions{by(Kind::path), by(Kind::path_variable, "tenant"), by(Kind::host)};
  const std::string expected = key(dimensions, get("/api/t1/login"), match);
  const std::vector<std::string> detours{
      "/",        "/./",        "/%2e/",        "//",     "/x/../",
      "/x%2f../", "/%78/.%2E/", "/x/y/..//../", "%2f/./", "/" + std::string(60, 'x') + "/../"};
  for (int round = 0; round < 5000; ++round) {
    std::string target;
    for (const std::string_view segment : {"api", "t1", "login"}) {
      target +=
          target.empty() ? "/" + detours[random() % detours.size()] : detours[random() % detours.size()];
      for (const char c : segment) {
        if (random() % 3 == 0) {
          target += '%';
          for (const int shift : {4, 0})
            target += (random() % 2 == 0 ? "0123456789abcdef" : "0123456789ABCDEF")[c >> shift & 15];
        } else {
          target += c;
        }
      }
    }
    for (const std::string_view end : {"", "/", "/.", "?x=/../..", "#/..", "/y/.."}) {
      if (random() % 6 == 0) {
        target += end;
        break;
      }
    }
    std::string host = "example.com";
    for (char& c : host)
      if (random() % 2 == 0 && c != '.') c = static_cast<char>(std::toupper(c));
    if (random() % 3 == 0) host += '.';
    if (random() % 3 == 0) host += ":8080";
    const std::string sent = random() % 4 == 0 ? "HttP://" + host + target : target;
    ASSERT_EQ(key(dimensions, get(sent, host), match), expected) << sent << " at " << host;
  }
}

TEST(ClassifierProperty, IsSafeForAnyRequest) {
  constexpr unsigned seed = 29;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::vector<Rule> rules{
      rule(for_path("/{a}/*/{b}/**"),
           {by(Kind::path_variable, "a"), by(Kind::path_variable, "b"), by(Kind::path)}),
      rule(for_host("*.com"), {by(Kind::host), by(Kind::header, "x"), by(Kind::method)}),
      rule({}, {by(Kind::path)})};
  const Classifier classifier(rules);
  const std::string_view parts[] = {"/", "/", "a", ".", "..", "%",    "2e",     "%2F",
                                    "?", "[", "]", ":", "@",  ".com", "http://"};
  const auto noise = [&] {
    std::string text;
    for (unsigned i = 0; i < random() % 16; ++i) {
      if (random() % 4 == 0) {
        text.append(random() % 64 == 0 ? 10000 : 1, static_cast<char>(random()));
      } else {
        text += parts[random() % std::size(parts)];
      }
    }
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    const std::string target = noise();
    const std::string host = noise();
    const std::string method = round % 8 == 0 ? "CONNECT" : noise();
    const std::string value = noise();
    const Header headers[] = {{"X", value}};
    Request request = get(target, host);
    request.method = method;
    request.headers = headers;
    Classifier::Scratch scratch;
    classifier.match(request, scratch);
    ASSERT_LE(scratch.path.size(), Classifier::Scratch::max_path);
    for (std::size_t i = 0; i < scratch.rule_count; ++i) {
      KeyBytes bytes;
      classifier.make_key(scratch.rules[i], request, scratch, bytes);
      ASSERT_EQ(key_name("r", bytes.bytes()).find("%?"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace weir
