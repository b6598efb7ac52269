// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frame_builder.h"
#include "weir/packet.h"

namespace weir {
namespace {

using test::HttpText;
using namespace std::string_literals;

HeaderSelection selection(std::initializer_list<std::string_view> names) {
  HeaderSelection result;
  for (const auto name : names) EXPECT_TRUE(result.add(name));
  return result;
}

/// A request as owned text, so that it outlives its payload.
struct Found {
  std::string protocol, method, target, host;
  std::vector<std::pair<std::string, std::string>> headers;
  bool complete = false;
};

// The payload is parsed in memory of exactly its size, so that a sanitizer sees a read beyond its end.
std::vector<Found> requests_in(std::string_view text, const HeaderSelection& chosen = {}) {
  const auto memory = std::make_unique<char[]>(text.size());
  std::copy(text.begin(), text.end(), memory.get());
  const std::string_view payload(memory.get(), text.size());
  const auto inside = [&](std::string_view part) {
    return part.empty() ||
           (part.data() >= payload.data() && part.data() + part.size() <= payload.data() + payload.size());
  };
  std::vector<Found> found;
  HttpRequests requests(payload, chosen);
  ParsedRequest parsed;
  while (requests.next(parsed)) {
    const Request& request = parsed.request;
    EXPECT_TRUE(inside(request.method) && inside(request.target) && inside(request.host));
    EXPECT_LE(request.headers.size(), chosen.size());
    Found& one = found.emplace_back();
    one = {std::string(request.protocol),
           std::string(request.method),
           std::string(request.target),
           std::string(request.host),
           {},
           parsed.complete};
    for (const Header& header : request.headers) {
      EXPECT_TRUE(inside(header.name) && inside(header.value));
      one.headers.emplace_back(header.name, header.value);
    }
  }
  EXPECT_FALSE(requests.next(parsed)) << "the end stays the end";
  return found;
}

Found only_request_in(std::string_view text, const HeaderSelection& chosen = {}) {
  const auto found = requests_in(text, chosen);
  EXPECT_EQ(found.size(), 1u) << text;
  return found.size() == 1 ? found.front() : Found{};
}

std::vector<std::string> targets_in(std::string_view text) {
  std::vector<std::string> targets;
  for (const Found& found : requests_in(text)) targets.push_back(found.target);
  return targets;
}

using Targets = std::vector<std::string>;

/// Where nobody can tell where a request ends they come from the last one to the first.
Targets targets_in_order(std::string_view text) {
  Targets targets = targets_in(text);
  std::sort(targets.begin(), targets.end());
  return targets;
}

TEST(HttpRequest, HasMethodTargetProtocolAndHost) {
  const Found found = only_request_in(HttpText("GET", "/users/5?x=1").host("Example.com:8080").str());
  EXPECT_EQ(found.method, "GET");
  EXPECT_EQ(found.target, "/users/5?x=1");
  EXPECT_EQ(found.protocol, "http/1.1");
  EXPECT_EQ(found.host, "Example.com:8080") << "as sent";
  EXPECT_TRUE(found.complete);
}

TEST(HttpRequest, MayUseAnyTokenAsMethod) {
  for (const auto method : {"GET", "POST", "PATCH", "PROPFIND", "M-SEARCH", "get", "X", "!#$%&'*+-.^_`|~09"})
    EXPECT_EQ(only_request_in(HttpText(method).str()).method, method);
}

TEST(HttpRequest, NamesItsVersion) {
  EXPECT_EQ(only_request_in(HttpText("GET", "/", "HTTP/1.0").str()).protocol, "http/1.0");
  EXPECT_EQ(only_request_in(HttpText("GET", "/", "HTTP/1.1").str()).protocol, "http/1.1");
  EXPECT_EQ(only_request_in(HttpText("GET", "/", "HTTP/1.7").str()).protocol, "http/1.1")
      << "servers answer a higher minor version as the highest they know";
}

TEST(HttpRequest, MayEndItsLinesWithABareLineFeed) {
  const Found found = only_request_in("GET /a HTTP/1.1\nHost: h\nX: 1\n\n", selection({"x"}));
  EXPECT_EQ(found.target, "/a");
  EXPECT_EQ(found.host, "h");
  EXPECT_EQ(found.headers.size(), 1u);
  EXPECT_TRUE(found.complete);
}

TEST(HttpRequest, MayBeSpacedMoreWidelyThanAllowed) {
  const Found found = only_request_in("GET   /a   HTTP/1.1  \r\nHost: h\r\n\r\n");
  EXPECT_EQ(found.target, "/a");
  EXPECT_EQ(found.host, "h");
}

TEST(HttpRequest, MayFollowEmptyLines) {
  EXPECT_EQ(targets_in("\r\n\r\n\nGET /a HTTP/1.1\r\n\r\n"), Targets{"/a"});
}

TEST(HttpRequest, IsNotFoundInOtherPayloads) {
  const std::string_view others[] = {
      "",
      "\r\n",
      "GET",
      "GET / HTTP/1.1",
      "GET / HTTP/1.1\r",
      "HTTP/1.1 200 OK\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET key\r\n",
      "GET /",
      "GET / x\r\n",
      "get /\r\n",
      "FOO /\r\n",
      "post /\r\n",
      "POST key\r\n",
      "CONNECT\r\n",
      "CONNECT {}\r\n",
      "FOO *\r\n",
      "PRI * HTTP/2.0 \r\n",
      "GET / HTTP/.1\r\n\r\n",
      "GET / HTTP/11\r\n\r\n",
      "GET / HTTP/1111.1\r\n\r\n",
      "GET / ICY/1.1\r\n\r\n",
      "GET / HTTP/1.\r\n\r\n",
      "GET / HTTP/1.x\r\n\r\n",
      "GET / HTTP/1.1111\r\n\r\n",
      "GET / HTTP/1.1x\r\n\r\n",
      "GET / HTTP/1.1 x\r\n\r\n",
      "GET  HTTP/1.1\r\n\r\n",
      " GET / HTTP/1.1\r\n\r\n",
      "G(T / HTTP/1.1\r\n\r\n",
      "GET /a b\r\n",
      "GET /a b HTTP/1.1x\r\n\r\n",
      "GET a\r b HTTP/1.1\r\n\r\n",
      "GET /\r HTTP/1.1\r\n\r\n",
      "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n",
      "SSH-2.0-OpenSSH_9.2\r\n",
  };
  for (const auto text : others) EXPECT_TRUE(requests_in(text).empty()) << text;
  EXPECT_TRUE(requests_in("G\0T / HTTP/1.1\r\n\r\n"s).empty());
  EXPECT_TRUE(requests_in("GET /\0 HTTP/1.1\r\n\r\n"s).empty());
  EXPECT_TRUE(requests_in("GET /a \0 HTTP/1.1\r\n\r\n"s).empty());
}

// nginx before 1.21.1 takes all of it for the target: a request with a space in its target is to be limited
// there as well.
TEST(HttpRequest, MayHaveWhiteSpaceAndControlsInItsTarget) {
  for (const auto target : {"/a b", "/login?a b", "/a  b\tc", "/a\tb", "/a\x01", "/\x7f \x1f",
                            "/a HTTP/1.1 b", "http://h/ a", "/a\v\fb"}) {
    for (const auto space : {" ", "\t "}) {
      const Found found = only_request_in("POST "s + target + space + "HTTP/1.0 \r\nHost: h\r\n\r\n");
      EXPECT_EQ(found.method, "POST");
      EXPECT_EQ(found.target, target);
      EXPECT_EQ(found.protocol, "http/1.0");
      EXPECT_EQ(found.host, "h");
    }
  }
  EXPECT_EQ(targets_in("GET /1 HTTP/1.1\r\n\r\nGET /2 x HTTP/1.1\r\n\r\nGET /3\x02 HTTP/1.1\r\n\r\n"),
            (Targets{"/1", "/2 x", "/3\x02"}));
}

// Apache, HAProxy and Node.js take a version that there is not in these bytes for HTTP/1.1, Node.js RTSP's,
// too.
TEST(HttpRequest, IsFoundWhateverItsVersion) {
  for (const auto version : {"HTTP/2.0", "HTTP/3.0", "HTTP/0.9", "HTTP/9.99", "HTTP/10.1", "HTTP/1.0001",
                             "HTTP/1.000000999", "RTSP/1.1"}) {
    const Found found = only_request_in(HttpText("GET", "/a", version).host("h").str());
    EXPECT_EQ(found.protocol, "http/1.1") << version;
    EXPECT_EQ(found.target, "/a");
    EXPECT_EQ(found.host, "h");
  }
  EXPECT_EQ(only_request_in("PRI / HTTP/1.1\r\n\r\n").method, "PRI") << "not what HTTP/2 begins with";
  EXPECT_EQ(only_request_in("PRI / HTTP/2.0\r\n\r\n").method, "PRI");
  EXPECT_EQ(only_request_in("GET /a http/1.1\r\n\r\n").protocol, "http/1.1") << "Apache, where it is lenient";
  // Node.js answers these.
  EXPECT_EQ(only_request_in("DESCRIBE rtsp://h/a RTSP/1.0\r\n\r\n").host, "h");
  EXPECT_EQ(only_request_in("OPTIONS * RTSP/1.0\r\n\r\n").target, "*");
  EXPECT_EQ(only_request_in("POST http://h/a RTSP/1.1\r\n\r\n").host, "h");
  EXPECT_EQ(only_request_in("SOURCE /a ICE/1.1\r\n\r\n").target, "/a");
  EXPECT_TRUE(requests_in("GET /a ICE/1.1\r\n\r\n").empty());
}

// nginx and Apache still answer these.
TEST(HttpRequest, IsFoundWithoutAVersion) {
  for (const auto text :
       {"GET /a\r\n", "GET /a\n", "GET  /a \r\n", "GET /a\r\n\r\n", "GET /a\r\nGET /a\r\n"}) {
    const Found found = only_request_in(text);
    EXPECT_EQ(found.protocol, "http/0.9");
    EXPECT_EQ(found.method, "GET");
    EXPECT_EQ(found.target, "/a");
  }
  EXPECT_EQ(only_request_in("GET http://h/a\r\n").host, "h");
  EXPECT_EQ(only_request_in("GET foo://h/a\r\n").host, "h") << "nginx takes any scheme";
  EXPECT_EQ(only_request_in("POST http:///a\r\n").target, "http:///a");
  EXPECT_EQ(only_request_in("GET /a\r\nHost: h\r\n\r\n").host, "h") << "Node.js reads on";
  EXPECT_EQ(only_request_in("CONNECT h:1\r\n").host, "h:1");
  EXPECT_EQ(only_request_in("CONNECT [::1]:1 \n").target, "[::1]:1");
  EXPECT_EQ(only_request_in("CONNECT H\n").target, "H");
  EXPECT_EQ(only_request_in("CONNECT h:1HTTP/1.1\r\n").target, "h:1HTTP/1.1");
  for (const auto target : {"*", "*a"}) EXPECT_EQ(only_request_in("PRI "s + target + "\r\n").target, target);
  for (const auto method : {"POST", "PATCH", "M-SEARCH", "UNSUBSCRIBE", "PLAY", "TEARDOWN"}) {
    const Found found = only_request_in(method + " /a\r\nHost: h\r\n\r\n"s);
    EXPECT_EQ(found.method, method) << "as it does with other methods";
    EXPECT_EQ(found.host, "h");
  }
}

// As RFC 9112 §3 lets servers do; HAProxy does.
TEST(HttpRequest, MayHaveWhiteSpaceOfAnyKindBetweenTheParts) {
  for (const auto text :
       {"GET\t/a HTTP/1.1\r\n\r\n", "GET /a\tHTTP/1.1\r\n\r\n", "GET \t /a\v\fHTTP/1.1 \t\r\n\r\n"}) {
    EXPECT_EQ(only_request_in(text).target, "/a");
    EXPECT_EQ(only_request_in(text).method, "GET");
  }
}

TEST(HttpRequest, IsIncompleteWithoutTheEndOfItsHeaders) {
  const Found found =
      only_request_in("GET /a HTTP/1.1\r\nHost: h\r\nX: 1\r\nZ: cut o", selection({"x", "y"}));
  EXPECT_EQ(found.target, "/a");
  EXPECT_EQ(found.host, "h");
  EXPECT_FALSE(found.complete);
  ASSERT_EQ(found.headers.size(), 1u);
  EXPECT_EQ(found.headers[0].second, "1");
}

// Clients whose tokens do not fit into one segment are told apart by as much as does. Else they would all
// have the key of those without one, and be limited together.
TEST(HttpRequest, HasTheValueInWhichItIsCutAsFarAsItGoes) {
  for (const InstructionSet set :
       {InstructionSet::portable, InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512}) {
    HeaderSelection chosen(set);
    for (const char* const name : {"x", "y"}) ASSERT_TRUE(chosen.add(name));
    const auto value_of_y = [&](std::string_view end) -> std::optional<std::string> {
      const Found found = only_request_in("GET /a HTTP/1.1\r\nHost: h\r\nX: 1\r\n"s.append(end), chosen);
      EXPECT_FALSE(found.complete);
      EXPECT_EQ(found.headers.at(0).second, "1");
      if (found.headers.size() == 1) return std::nullopt;
      EXPECT_EQ(found.headers.at(1).first, "y");
      return found.headers.at(1).second;
    };
    EXPECT_EQ(value_of_y("y: cut o"), "cut o");
    EXPECT_EQ(value_of_y("y:\tcut \r"), "cut");
    EXPECT_EQ(value_of_y("y: cut\r\n"), "cut") << "that is all of it";
    EXPECT_EQ(value_of_y("y: " + std::string(1400, 'v')), std::string(1400, 'v'));
    EXPECT_EQ(value_of_y("y: 1\r\ny: cut o"), "1") << "the first counts";
    EXPECT_EQ(value_of_y("y:"), "");
    for (const auto none : {"y", "y : cut", " y: cut", "yy: cut", "x: 2", "z: y: cut", ""})
      EXPECT_EQ(value_of_y(none), std::nullopt) << none;
    EXPECT_EQ(only_request_in("GET /a HTTP/1.1\r\nHost: exam", chosen).host, "") << "that is another host";
  }
}

TEST(HttpRequest, OffersOnlyChosenHeaders) {
  const std::string text = HttpText().host("h").header("X-Api-Key", "k").header("Cookie", "c").str();
  EXPECT_TRUE(only_request_in(text).headers.empty());
  const Found found = only_request_in(text, selection({"x-api-key", "authorization"}));
  ASSERT_EQ(found.headers.size(), 1u);
  EXPECT_EQ(found.headers[0], (std::pair<std::string, std::string>("X-Api-Key", "k")));
}

TEST(HttpRequest, FindsHeadersWhateverTheirCase) {
  EXPECT_EQ(only_request_in("GET / HTTP/1.1\r\nhOsT: h\r\n\r\n").host, "h");
  const Found found = only_request_in(HttpText().header("x-aPi-KEY", "k").str(), selection({"x-api-key"}));
  ASSERT_EQ(found.headers.size(), 1u);
}

TEST(HttpRequest, TrimsValues) {
  const Found found =
      only_request_in("GET / HTTP/1.1\r\nHost:h\r\nX: \t a b \t \r\nY:\r\n\r\n", selection({"x", "y"}));
  EXPECT_EQ(found.host, "h");
  ASSERT_EQ(found.headers.size(), 2u);
  EXPECT_EQ(found.headers[0].second, "a b");
  EXPECT_EQ(found.headers[1].second, "") << "there, and empty";
}

// nginx takes any number of them for the line's end: else each number would make another key of one value.
TEST(HttpRequest, TakesAllCarriageReturnsAtALinesEndForItsEnd) {
  const std::string text = "GET / HTTP/1.1\r\nHost: h\r\r\nX: a b \r\r\r\nY: \r\r\nZ: a\rb\r\r\n\r\n";
  for (const InstructionSet set :
       {InstructionSet::portable, InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512}) {
    HeaderSelection chosen(set);
    for (const char* const name : {"x", "y", "z"}) ASSERT_TRUE(chosen.add(name));
    const Found found = only_request_in(text, chosen);
    EXPECT_TRUE(found.complete);
    EXPECT_EQ(found.host, "h");
    ASSERT_EQ(found.headers.size(), 3u);
    EXPECT_EQ(found.headers[0].second, "a b");
    EXPECT_EQ(found.headers[1].second, "");
    EXPECT_EQ(found.headers[2].second, "a\rb");
  }
}

TEST(HttpRequest, TakesTheFirstOfRepeatedHeaders) {
  const Found found = only_request_in(
      HttpText().host("first").header("X", "1").header("x", "2").host("second").str(), selection({"x"}));
  EXPECT_EQ(found.host, "first");
  ASSERT_EQ(found.headers.size(), 1u);
  EXPECT_EQ(found.headers[0].second, "1");
}

TEST(HttpRequest, TakesAnEmptyFirstHostToo) {
  EXPECT_EQ(only_request_in("GET / HTTP/1.1\r\nHost:\r\nHost: second\r\n\r\n").host, "");
}

TEST(HttpRequest, IsNotFooledByFoldedLines) {
  const Found found = only_request_in(
      "GET / HTTP/1.1\r\nX: 1\r\n Host: folded\r\n\tX: 2\r\nHost: real\r\n\r\n", selection({"x"}));
  EXPECT_EQ(found.host, "real");
  ASSERT_EQ(found.headers.size(), 1u);
  EXPECT_EQ(found.headers[0].second, "1");
}

// Apache and HAProxy do.
TEST(HttpRequest, HasItsHostInTheNextLineWhereThereIsNoneInItsOwn) {
  EXPECT_EQ(only_request_in("GET / HTTP/1.1\r\nHost:\r\n  h\r\n\r\n").host, "h");
  EXPECT_EQ(only_request_in("GET / HTTP/1.1\r\nHost:\r\n \r\n\th \r\n i\r\n\r\n").host, "h");
  EXPECT_EQ(only_request_in("GET / HTTP/1.1\r\nHost: \r\n\r\n").host, "");
  EXPECT_EQ(only_request_in("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n").host, "a");
}

TEST(HttpRequest, HasAHeaderInTheNextLineWhereThereIsNoneInItsOwn) {
  const auto x_in = [](const std::string& lines) {
    const Found found = only_request_in("GET / HTTP/1.1\r\n" + lines + "\r\n", selection({"x"}));
    return found.headers.empty() ? "absent" : found.headers[0].second;
  };
  EXPECT_EQ(x_in("X:\r\n k\r\n"), "k");
  EXPECT_EQ(x_in("X: \r\n \r\n\tk \r\n i\r\n"), "k");
  EXPECT_EQ(x_in("X:\r\nY: k\r\n"), "");
  EXPECT_EQ(x_in("X: k\r\n i\r\n"), "k");
}

TEST(HttpRequest, IgnoresLinesThatAreNoHeader) {
  const Found found = only_request_in(
      "GET / HTTP/1.1\r\nHost : spaced\r\nno colon\r\n: no name\r\nHo\0st: nul\r\nH\xc3\xb6st: x\r\nHost: real\r\n\r\n"s);
  EXPECT_EQ(found.host, "real");
  EXPECT_TRUE(found.complete);
}

TEST(HttpRequest, KeepsWhateverBytesAValueHas) {
  const Found found = only_request_in("GET / HTTP/1.1\r\nX: a\0\xff:b\r\n\r\n"s, selection({"x"}));
  ASSERT_EQ(found.headers.size(), 1u);
  EXPECT_EQ(found.headers[0].second, "a\0\xff:b"s);
}

std::vector<std::string> hosts_in(std::string_view text) {
  std::vector<std::string> hosts;
  for (const Found& found : requests_in(text)) hosts.push_back(found.host);
  return hosts;
}
using Hosts = std::vector<std::string>;

TEST(HttpTarget, InAbsoluteFormNamesTheHost) {
  EXPECT_EQ(hosts_in(HttpText("GET", "http://real.example:81/a").str()), Hosts{"real.example:81"});
  EXPECT_EQ(hosts_in(HttpText("GET", "HTTPS://real.example").host("REAL.example.:443").str()),
            Hosts{"real.example"});
  EXPECT_EQ(hosts_in(HttpText("GET", "http://u:p@real.example:1?q").host("real.example").str()),
            Hosts{"real.example:1"});
  EXPECT_EQ(hosts_in(HttpText("GET", "http:///a").host("real.example").str()), Hosts{"real.example"});
  EXPECT_EQ(hosts_in(HttpText("GET", "/http://fake.example/").host("other").str()), Hosts{"other"});
  EXPECT_EQ(hosts_in(HttpText("GET", "/?u=http://fake.example/").host("other").str()), Hosts{"other"});
}

// nginx goes by the target, Node.js by the field, and Apache by the one or the other.
TEST(HttpTarget, ThatNamesAnotherHostThanTheFieldMakesARequestOfEach) {
  const std::string twice = "POST x://a/p HTTP/1.1\r\nHost: b\r\nContent-Length: 1\r\n\r\n-";
  EXPECT_EQ(hosts_in(twice), (Hosts{"a", "b"}));
  EXPECT_EQ(targets_in(twice), (std::vector<std::string>{"x://a/p", "x://a/p"}));
  EXPECT_EQ(hosts_in(twice + twice + "GET / HTTP/1.1\r\nHost: c\r\n\r\n"), (Hosts{"a", "b", "a", "b", "c"}));
  EXPECT_EQ(hosts_in("GET x://a/p HTTP/1.1\r\nHost: b\r\n"), (Hosts{"a", "b"})) << "a head that is cut";
  EXPECT_EQ(hosts_in("GET  x://a/p\tHTTP/1.1\r\nHost: b\r\n\r\n"), (Hosts{"a", "b"}))
      << "as the parser finds it";
}

TEST(HttpTarget, ThatNamesAnotherHostMakesTwoAlsoWhereNobodyCanTellWhereARequestEnds) {
  const std::string lost = "POST http://a/ HTTP/1.1\r\nHost: b\r\nContent-Length: x\r\n\r\n";
  const std::string next = "PROPPATCH http://d/ HTTP/1.1\r\nHost: e\r\n\r\n";
  EXPECT_EQ(hosts_in(lost + next + "GET / HTTP/1.1\r\nHost: f\r\n\r\n"),
            (Hosts{"a", "b", "f", "d", "e", "d", "e"}))
      << "as PROPPATCH and as PATCH";
}

TEST(HttpTarget, InAuthorityFormIsTheHost) {
  const Found found = only_request_in(HttpText("CONNECT", "real.example:443").host("other").str());
  EXPECT_EQ(found.target, "real.example:443");
  EXPECT_EQ(found.host, "real.example:443");
  EXPECT_EQ(only_request_in("CONNECT any@real.example:443 HTTP/1.1\r\n\r\n").host, "real.example:443");
}

// HAProxy and Node.js answer it with any method.
TEST(HttpTarget, MayBeAnAsterisk) {
  for (const auto method : {"OPTIONS", "GET", "FOO"}) {
    const Found found = only_request_in(HttpText(method, "*").host("h").str());
    EXPECT_EQ(found.target, "*");
    EXPECT_EQ(found.host, "h");
  }
}

// As HAProxy takes it.
TEST(HttpTarget, MayHoldDel) {
  EXPECT_EQ(only_request_in(HttpText("GET", "/a\x7f").host("h").str()).target, "/a\x7f");
  EXPECT_EQ(only_request_in("GET /\x7f\r\n").target, "/\x7f");
}

TEST(Pipelining, FindsRequestsBehindBodilessOnes) {
  const std::string text =
      HttpText("GET", "/1").str() + HttpText("HEAD", "/2").str() + HttpText("GET", "/3").str();
  EXPECT_EQ(targets_in(text), (Targets{"/1", "/2", "/3"}));
}

TEST(Pipelining, FindsRequestsBehindBodiesOfKnownLength) {
  const std::string text = HttpText("POST", "/1").body("GET /body HTTP/1.1\r\n\r\n").str() +
                           HttpText("POST", "/2").body("").str() + HttpText("GET", "/3").str();
  EXPECT_EQ(targets_in(text), (Targets{"/1", "/2", "/3"}));
}

TEST(Pipelining, EndsWithABodyThatGoesOnInTheNextSegment) {
  EXPECT_EQ(targets_in("POST /1 HTTP/1.1\r\nContent-Length: 99\r\n\r\nGET /2 HTTP/1.1\r\n\r\n"),
            Targets{"/1"});
  EXPECT_EQ(targets_in("POST /1 HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345"), Targets{"/1"});
}

TEST(Pipelining, TakesBodiesOfALengthThatIsToldInAnyWayServersKnow) {
  for (const auto header :
       {"Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5, 5",
        "Content-Length: 5 ,05\r\ncontent-length:005", "Content-Length: 0000000000000000000000000000000005"})
    EXPECT_EQ(targets_in("POST /1 HTTP/1.1\r\n"s + header + "\r\nX: y\r\n\r\nab deGET /2 HTTP/1.1\r\n\r\n"),
              (Targets{"/1", "/2"}))
        << header;
}

// Whoever goes on behind such a body, by whichever reading, is not to find more requests than are counted.
TEST(Pipelining, GoesOnWithEveryRequestLineWhereNobodyCanTellWhereABodyEnds) {
  for (const auto header : {"transfer-encoding: identity",
                            "Transfer-Encoding: chunked, gzip",
                            "Transfer-Encoding: xchunked",
                            "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip",
                            "Transfer-Encoding:",
                            "Content-Length: +5",
                            "Transfer-Encoding: chunked\r\n x",
                            "Content-Length: -5",
                            "Content-Length: 5x",
                            "Content-Length:",
                            "Content-Length: 0x5",
                            "Content-Length: 5, 6",
                            "Content-Length: 5,",
                            "Content-Length: 5\r\n 6",
                            "Content-Length:\r\n 5",
                            "Content-Length: 5\r\n ",
                            "Transfer-Encoding:\r\nContent-Length: 5",
                            "Transfer-Encoding: chunked\r\nContent-Length: 5",
                            "Content-Length: x\r\nTransfer-Encoding: chunked",
                            "Transfer-Encoding:\r\n chunked",
                            "Transfer-Encoding: chunked\r\n ",
                            "Content-Length: 5\r\nContent-Length: 6",
                            "Content-Length: 18446744073709551621",
                            "Content-Length: 99999999999999999999999999999999"})
    EXPECT_EQ(targets_in_order("POST /1 HTTP/1.1\r\n"s + header +
                               "\r\n\r\nabcd\r\n0\r\n\r\nGET /2 HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\n\r\n"),
              (Targets{"/1", "/2", "/3"}))
        << header;
}

TEST(Pipelining, HasTheValueInWhichItIsCutAlsoWhereNobodyCanTellWhereARequestEnds) {
  const std::string text = "POST /1 HTTP/1.1\r\nTransfer-Encoding:\r\n\r\nGET /2 HTTP/1.1\r\nX: 1\r\n";
  const auto found = requests_in(text + "Y: cut o", selection({"x", "y"}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_FALSE(found[1].complete);
  ASSERT_EQ(found[1].headers.size(), 2u);
  EXPECT_EQ(found[1].headers[0].second, "1");
  EXPECT_EQ(found[1].headers[1].second, "cut o");
  EXPECT_EQ(requests_in(text + "Host: exam").at(1).host, "");
}

// Go's server looks at no chunks in HTTP/1.0.
TEST(Pipelining, GoesOnBehindTheChunksAndBehindTheLengthOfOlderRequests) {
  const std::string hidden = "GET /2 HTTP/1.1\r\n\r\n";
  const std::string chunked =
      "Transfer-Encoding: chunked\r\n\r\n13\r\n" + hidden + "\r\n0\r\n\r\nGET /3 HTTP/1.1\r\n\r\n";
  EXPECT_EQ(targets_in_order("POST /1 HTTP/1.1\r\n" + chunked), (Targets{"/1", "/3"}));
  for (const auto head : {"POST /1 HTTP/1.0\r\n", "POST /1 HTTP/1.0\r\nContent-Length: 4\r\n",
                          "POST /1 HTTP/1.1\r\nContent-Length: 4\r\n"})
    EXPECT_EQ(targets_in_order(head + chunked), (Targets{"/1", "/2", "/3"})) << head;
}

TEST(Pipelining, GoesOnBehindEachOfSeveralLengths) {
  const std::string behind_the_first = "GET /2 HTTP/1.1\r\n\r\n";
  for (const auto& [one, other] : {std::pair(5, 24), std::pair(24, 5)})
    EXPECT_EQ(targets_in_order("POST /1 HTTP/1.1\r\nContent-Length: " + std::to_string(one) +
                               "\r\nContent-Length: " + std::to_string(other) + "\r\n\r\nabcde" +
                               behind_the_first + "GET /3 HTTP/1.1\r\n\r\n"),
              (Targets{"/1", "/2", "/3"}))
        << one << ", " << other;
}

// Node.js takes an empty Transfer-Encoding for none: the next request begins where the length says.
TEST(Pipelining, FindsRequestsInMidLineWhereNobodyCanTellWhereABodyEnds) {
  const std::string first = "POST /1 HTTP/1.1\r\nTransfer-Encoding:\r\nContent-Length: 5\r\n\r\n";
  for (const std::string& body :
       {"ab de"s, "abcde"s, "a\r\nde"s, "ab d("s, "ab\0d\xff"s, "GET /"s, "/ HTTP/1.1"s, "\r\n\t\x7f\r"s})
    for (const std::string line : {"GET /2 HTTP/1.1", "GET \t/2  HTTP/1.0 ", "GET /2", "GET /2 HTTP/2.0"}) {
      const std::string text = first + body + line + "\r\nHost: h\r\n\r\n";
      const auto found = requests_in(text + body + line + "\n");
      ASSERT_EQ(found.size(), 3u) << text;
      for (const std::size_t i : {1, 2}) {
        EXPECT_EQ(found[i].method, "GET") << text;
        EXPECT_EQ(found[i].target, "/2") << text;
      }
      EXPECT_FALSE(found[1].complete);
      EXPECT_EQ(found[2].host, "h");
      EXPECT_TRUE(found[2].complete);
    }
  EXPECT_EQ(requests_in(first + "ab(deX-Y /2 HTTP/1.1\n")[1].method, "deX-Y") << "all that may be a method";
  for (const std::string line : {"GET /2 HTTP/1.1", "GET HTTP/1.2.3\n", "(/2\n", "X-Y /2\n", "GET 2\n"})
    EXPECT_EQ(targets_in(first + "ab de" + line), Targets{"/1"}) << line;
}

// Node.js goes on behind `PROP`, and answers PATCH; another server may answer PROPPATCH.
TEST(Pipelining, FindsARequestOfEveryKnownMethodWithWhichAMethodEndsWhereNobodyCanTellWhereItBegins) {
  const std::string first = "POST /1 HTTP/1.1\r\nTransfer-Encoding:\r\nContent-Length: 4\r\n\r\n";
  const auto methods_in = [&](const std::string& text) {
    std::vector<std::string> methods;
    for (const Found& found : requests_in(first + text)) methods.push_back(found.method);
    return methods;
  };
  using Methods = std::vector<std::string>;
  for (const auto& [longer, shorter] :
       {std::pair("PROPPATCH", "PATCH"), std::pair("UNLOCK", "LOCK"), std::pair("UNLINK", "LINK"),
        std::pair("UNBIND", "BIND"), std::pair("REBIND", "BIND"), std::pair("UNSUBSCRIBE", "SUBSCRIBE"),
        std::pair("M-SEARCH", "SEARCH")})
    for (const std::string before : {"", "ab", "a ", "\r\n", "PATCH /3 "})
      for (const std::string line : {" /2 HTTP/1.1\r\n", " \t* HTTP/1.0 \n", " /2\n", " http://a\n"})
        EXPECT_EQ(methods_in(before + longer + line), (Methods{"POST", longer, shorter})) << before << line;
  EXPECT_EQ(methods_in("UNLOCK /2\nREBIND /3\n"), (Methods{"POST", "REBIND", "BIND", "UNLOCK", "LOCK"}));
  EXPECT_EQ(methods_in("UNLOCK LOCK /2\n"), (Methods{"POST", "LOCK"}));
  EXPECT_EQ(methods_in("abFOO /2 HTTP/1.1\n"), (Methods{"POST", "abFOO"})) << "no known one";
}

// They differ in nothing else, and the lines before theirs have what it says once.
TEST(Pipelining, HasOfEveryMethodWithWhichAMethodEndsTheSameRequest) {
  const auto found = requests_in(
      "CONNECT c:1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\nX: UNLOCK /3 HTTP/1.0\r\nHost: h\r\nY: 4\r\n\r\n",
      selection({"x", "y"}));
  using Headers = std::vector<std::pair<std::string, std::string>>;
  ASSERT_EQ(found.size(), 4u);
  for (const std::size_t i : {1, 2}) {
    EXPECT_EQ(found[i].method, i == 1 ? "UNLOCK" : "LOCK");
    EXPECT_EQ(found[i].target, "/3");
    EXPECT_EQ(found[i].protocol, "http/1.0");
    EXPECT_EQ(found[i].host, "h");
    EXPECT_EQ(found[i].headers, (Headers{{"Y", "4"}}));
    EXPECT_TRUE(found[i].complete);
  }
  EXPECT_EQ(found[3].method, "GET");
  EXPECT_EQ(found[3].headers, (Headers{{"X", "UNLOCK /3 HTTP/1.0"}, {"Y", "4"}}));
}

// What looks like a request line may be a part of a request's header, and the other way round.
TEST(Pipelining, HasOfEachRequestItsOwnHeaderWhereNobodyCanTellWhereOneEnds) {
  const auto found = requests_in(
      "CONNECT c:1 HTTP/1.1\r\n\r\n"
      "Host: of nobody\r\n.GET /2 HTTP/1.1\r\nX: 1\r\nX: GET /3 HTTP/1.1\r\nHost: GET /4 HTTP/1.1\r\nx: 2\r\n"
      "Host:\r\n h\r\nX: 3\r\n\r\nGET http://a/5 HTTP/1.1\r\nHost: A:80\r\nY: 4\r\n",
      selection({"x", "y"}));
  using Headers = std::vector<std::pair<std::string, std::string>>;
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[1].target, "http://a/5");
  EXPECT_EQ(found[1].host, "a");
  EXPECT_EQ(found[1].headers, (Headers{{"Y", "4"}}));
  EXPECT_FALSE(found[1].complete);
  EXPECT_EQ(found[2].target, "/4");
  EXPECT_EQ(found[2].host, "h");
  EXPECT_EQ(found[2].headers, (Headers{{"x", "2"}}));
  EXPECT_EQ(found[3].target, "/3");
  EXPECT_EQ(found[3].host, "GET /4 HTTP/1.1");
  EXPECT_EQ(found[3].headers, (Headers{{"x", "2"}}));
  EXPECT_EQ(found[4].target, "/2");
  EXPECT_EQ(found[4].host, "GET /4 HTTP/1.1");
  EXPECT_EQ(found[4].headers, (Headers{{"X", "1"}}));
  EXPECT_TRUE(found[4].complete);
}

// Else who sends one request for anything with such a body could send any number behind it, uncounted.
TEST(Pipelining, FindsRequestsBehindChunkedBodies) {
  for (const auto header :
       {"Transfer-Encoding: chunked", "transfer-encoding:CHUNKED ", "Transfer-Encoding: gzip, chunked",
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"})
    for (const auto body :
         {"0\r\n\r\n", "5\r\n12345\r\n0\r\n\r\n", "5\n12345\n0\n\n",
          "a;x=\"y\"\r\n\r\n\r\n0\r\n\r\n\r\n00\r\n\r\n", "0010\r\n0123456789abcdef\r\n1\r\n.\r\n000\r\n\r\n",
          "0 \t;\r\nA: b\r\nC:\r\n d\r\n\r\n"})
      EXPECT_EQ(targets_in("POST /1 HTTP/1.1\r\n"s + header + "\r\n\r\n" + body + "GET /2 HTTP/1.1\r\n\r\n"),
                (Targets{"/1", "/2"}))
          << header << "\n"
          << body;
}

TEST(Pipelining, FindsNoRequestsInTheTrailerOfAChunkedBody) {
  for (const auto trailer : {"X: GET /d HTTP/1.1\r\n", "A: b\r\nX: GET /d HTTP/1.1\r\n"})
    EXPECT_EQ(targets_in("POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n.\r\n0\r\n"s + trailer +
                         "\r\nGET /2 HTTP/1.1\r\n\r\n"),
              (Targets{"/1", "/2"}))
        << trailer;
}

TEST(Pipelining, EndsWithChunksThatGoOnInTheNextSegment) {
  const std::string next = "GET /2 HTTP/1.1\r\n\r\n";
  for (const auto body : {"99\r\n", "5\r\n12345\r\nfff\r\n", "ffffffffffffffff\r\n", "10000000000000000\r\n",
                          "0\r\n", "0\r\nA: b\r\n"})
    EXPECT_EQ(targets_in("POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"s + body + next),
              Targets{"/1"})
        << body;
  for (const auto body : {"", "5", "5\r", "5\r\n12345", "5\r\n12345\r", "5\r\n12345\r\n0"})
    EXPECT_EQ(targets_in("POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"s + body), Targets{"/1"})
        << body;
}

TEST(Pipelining, FindsRequestsBehindAnyNumberOfChunks) {
  std::string body;
  for (int i = 0; i < 3000; ++i) body += "1\r\n.\r\n";
  const std::string chunk = "GET /d HTTP/1.1\r\n\r\n";
  body += "13\r\n" + chunk + "\r\n0\r\n\r\n";
  EXPECT_EQ(targets_in("POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"s + body +
                       "GET /2 HTTP/1.1\r\n\r\n"),
            (Targets{"/1", "/2"}))
      << body;
}

// What looks like a request among what may be a body, or chunks, must not hide those behind it: servers read
// on.
TEST(Pipelining, IsNotEndedByWhatLooksLikeARequestWhereNobodyCanTellWhereABodyEnds) {
  const std::string behind = "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
  for (const std::string decoy :
       {"GET /d HTTP/1.1\r\nContent-Length: 9999\r\n\r\n.", "CONNECT /d HTTP/1.1\r\n\r\n.",
        "GET /d HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n.", "GET /d HTTP/1.1\r\n.",
        "GET /d HTTP/1.1\r\nX: y"}) {
    // A server goes on at the first length, or at the second one.
    const std::string first = "POST /1 HTTP/1.1\r\nContent-Length: " + std::to_string(decoy.size() + 2) +
                              "\r\nContent-Length: 0\r\n\r\n" + decoy;
    for (const std::string end : {"", "\r\n", "\r\n\r", "\r\n\r\r"})
      EXPECT_EQ(targets_in_order(first + end + behind + end + behind), (Targets{"/1", "/2", "/2", "/d"}))
          << decoy;
  }
}

TEST(Pipelining, GoesOnWithEveryRequestLineBehindConnect) {
  EXPECT_EQ(targets_in_order("CONNECT h:1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\n\r\n"),
            (Targets{"/2", "/3", "h:1"}))
      << "Apache refuses the tunnel, and reads on";
  EXPECT_EQ(targets_in("CONNECT h:1 HTTP/1.1\r\n\r\n\x16\x03\x01\n"), Targets{"h:1"});
}

TEST(Pipelining, EndsBehindAnUnfinishedRequest) {
  EXPECT_EQ(targets_in("GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1"), Targets{"/1"});
  EXPECT_EQ(targets_in("GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\nHost: "), (Targets{"/1", "/2"}));
}

// A server that goes on there sees the request before end elsewhere.
TEST(Pipelining, GoesOnWithEveryRequestLineBehindWhatIsNone) {
  for (const auto other : {"garbage\r\n", " \r\n", "Host: h\r\n\r\n", "\xff.", "\r\n(", "x\n\n"})
    EXPECT_EQ(targets_in_order("GET /1 HTTP/1.1\r\n\r\n"s + other +
                               "GET /2 HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\n\r\n"),
              (Targets{"/1", "/2", "/3"}))
        << other;
  EXPECT_TRUE(targets_in("garbage\r\nGET /1 HTTP/1.1\r\n\r\n").empty())
      << "before all requests there is none";
}

TEST(Pipelining, CarriesNothingOverFromTheRequestBefore) {
  const auto found = requests_in(
      HttpText("GET", "/1").host("h").header("X", "1").str() + HttpText("GET", "/2").str(), selection({"x"}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].headers.size(), 1u);
  EXPECT_EQ(found[1].host, "");
  EXPECT_TRUE(found[1].headers.empty());
}

TEST(ParsedRequestReuse, LeavesWhatTheParserDoesNotKnow) {
  ParsedRequest parsed;
  parsed.request.destination_port = 8080;
  parsed.request.weight = 3;
  const HeaderSelection none;
  HttpRequests requests("GET / HTTP/1.1\r\n\r\n", none);
  ASSERT_TRUE(requests.next(parsed));
  EXPECT_EQ(parsed.request.destination_port, 8080);
  EXPECT_EQ(parsed.request.weight, 3u);
}

TEST(HeaderSelection, HoldsSixteenNamesOnce) {
  HeaderSelection chosen;
  for (std::size_t i = 0; i < max_chosen_headers; ++i) EXPECT_TRUE(chosen.add("x-" + std::to_string(i)));
  EXPECT_TRUE(chosen.add("x-3")) << "a name it already has";
  EXPECT_FALSE(chosen.add("x-new"));
  EXPECT_EQ(chosen.size(), max_chosen_headers);
  EXPECT_EQ(chosen[15], "x-15");
}

TEST(HeaderSelection, RefusesNamesItCannotHold) {
  HeaderSelection chosen;
  EXPECT_TRUE(chosen.add(std::string(64, 'x')));
  EXPECT_FALSE(chosen.add(std::string(65, 'x')));
  EXPECT_FALSE(chosen.add(""));
  EXPECT_EQ(chosen.size(), 1u);
}

TEST(HeaderSelection, LeavesTheHostEmptyWhereItIsNotWanted) {
  for (const InstructionSet set :
       {InstructionSet::portable, InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512}) {
    HeaderSelection chosen(set);
    ASSERT_TRUE(chosen.add("x"));
    chosen.want_host(false);
    for (const char* const text :
         {"GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n", "GET http://a/ HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n",
          "CONNECT a:1 HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n"}) {
      const auto found = requests_in(text, chosen);
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(found[0].host, "");
      ASSERT_EQ(found[0].headers.size(), 1u);
      EXPECT_EQ(found[0].headers[0].second, "y");
    }
    chosen.want_host(true);
    EXPECT_EQ(requests_in("GET / HTTP/1.1\r\nHost: h\r\n\r\n", chosen)[0].host, "h");
    // As a header that a rule names it is found all the same.
    ASSERT_TRUE(chosen.add("host"));
    chosen.want_host(false);
    const auto found = requests_in("GET / HTTP/1.1\r\nHost: h\r\n\r\n", chosen);
    EXPECT_EQ(found[0].host, "");
    ASSERT_EQ(found[0].headers.size(), 1u);
    EXPECT_EQ(found[0].headers[0].second, "h");
  }
}

TEST(HeaderSelection, WhenFullIsFoundInFull) {
  HeaderSelection chosen;
  HttpText text;
  for (std::size_t i = 0; i < max_chosen_headers; ++i) {
    chosen.add("x-" + std::to_string(i));
    for (const auto value : {"first", "second"}) text.header("X-" + std::to_string(i), value);
  }
  const Found found = only_request_in(text.str(), chosen);
  ASSERT_EQ(found.headers.size(), max_chosen_headers);
  for (const auto& header : found.headers) EXPECT_EQ(header.second, "first");
}

TEST(HttpRequests, GiveWhatWasThereAtEveryTruncation) {
  const std::string whole = HttpText("POST", "/1").host("h").header("X", "1").body("abc").str() +
                            HttpText("GET", "/2").host("h").str();
  const std::size_t first_line = whole.find('\n') + 1;
  std::size_t before = 0;
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const auto found = requests_in(std::string_view(whole).substr(0, length), selection({"x"}));
    EXPECT_EQ(!found.empty(), length >= first_line) << length;
    EXPECT_GE(found.size(), before) << "more bytes never take a request back";
    before = found.size();
    EXPECT_TRUE(found.empty() || found[0].target == "/1");
  }
  EXPECT_EQ(before, 2u);
}

TEST(HttpRequests, AreSafeForNoiseAndMutations) {
  constexpr unsigned seed = 13;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::string valid =
      "\r\n" + HttpText("POST", "http://h:1/a?b#c").host("h").header("X", "1").body("abc").str() +
      HttpText("GET", "*").header("Transfer-Encoding", "chunked").str();
  const std::string_view spice[] = {"\r\n", "\n",       "\r",    " ",        ":",
                                    "\0",   "HTTP/1.1", "Host:", "\r\n\r\n", "://"};
  const HeaderSelection chosen = selection({"x", "host", "content-length"});
  for (int round = 0; round < 30000; ++round) {
    std::string text = valid;
    for (unsigned i = 0; i <= random() % 5; ++i) {
      const std::size_t at = random() % (text.size() + 1);
      switch (random() % 3) {
        case 0:
          text.insert(at, spice[random() % std::size(spice)]);
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        default:
          if (at < text.size()) text[at] = static_cast<char>(random());
      }
    }
    for (const Found& found : requests_in(text, chosen)) {
      ASSERT_FALSE(found.method.empty());
      ASSERT_FALSE(found.target.empty());
      ASSERT_TRUE(found.protocol == "http/0.9" || found.protocol == "http/1.0" ||
                  found.protocol == "http/1.1");
    }
  }
}

TEST(HttpRequests, WhatCannotBeginARequestBeginsNone) {
  for (int byte = 0; byte < 256; ++byte) {
    const char first = static_cast<char>(byte);
    const bool line_end = first == '\r' || first == '\n';
    const std::string text = std::string(1, first) + (line_end ? "GET" : "") + " / HTTP/1.1\r\n\r\n";
    EXPECT_EQ(!requests_in(text).empty(), can_begin_request(first)) << byte;
  }
}

}  // namespace
}  // namespace weir
