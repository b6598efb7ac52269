// SPDX-License-Identifier: BSD-3-Clause
// Whatever instruction set a payload is searched with, the result is the portable parser's, byte for byte: on
// random and mutated payloads, and in memory that ends (or begins) exactly where the payload does.
// WEIR_TEST_SEED begins elsewhere, WEIR_TEST_HEADS says how many payloads.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_bytes.h"
#include "base/sanitized.h"
#include "classify/classifier.h"
#include "classify/head_scan.h"
#include "classify/normalise.h"
#include "classify/path_template.h"
#include "classify/plain_classifier.h"
#include "weir/packet.h"

namespace weir {
namespace {

using Random = std::mt19937_64;

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* const given = std::getenv(name);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

std::uint64_t seed() { return number_from("WEIR_TEST_SEED", 20261121); }

constexpr std::uint64_t usual_heads = WEIR_SANITIZED ? 50'000 : 1'000'000;

std::uint64_t heads() { return number_from("WEIR_TEST_HEADS", usual_heads); }

std::vector<InstructionSet> vector_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set : {InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512}) {
    if (has_instruction_set(set)) sets.push_back(set);
  }
  return sets;
}

/// Memory with nothing on both sides: a byte read outside of it ends the program.
class Fenced {
 public:
  Fenced() : page_(32 * static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* const all = mmap(nullptr, 3 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) std::abort();
    begin_ = static_cast<char*>(all) + page_;
    if (mprotect(begin_, page_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  ~Fenced() { munmap(begin_ - page_, 3 * page_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  /// The text, directly before the end of what can be read.
  std::string_view at_end(std::string_view text) { return put(begin_ + page_ - text.size(), text); }
  /// The text, directly behind the beginning.
  std::string_view at_begin(std::string_view text) { return put(begin_, text); }

 private:
  std::string_view put(char* to, std::string_view text) {
    if (text.size() > page_) std::abort();  // a test with a mistake in it
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
    return {to, text.size()};
  }

  std::size_t page_;
  char* begin_;
};

/// Everything a payload's requests say, in a form that compares.
struct Part {
  const char* data = nullptr;
  std::size_t size = 0;
  bool operator==(const Part&) const = default;
};

struct Found {
  std::array<Part, 4> parts;  // protocol (its text is a constant), method, target, host
  std::vector<std::array<Part, 2>> headers;
  bool complete = false;
  bool operator==(const Found&) const = default;
};

Part part(std::string_view text) { return text.empty() ? Part{} : Part{text.data(), text.size()}; }

void requests_in(std::string_view payload, const HeaderSelection& selection, std::vector<Found>& found) {
  found.clear();
  HttpRequests requests(payload, selection);
  ParsedRequest parsed;
  while (requests.next(parsed)) {
    const Request& request = parsed.request;
    Found& one = found.emplace_back();
    one.parts = {part(request.protocol), part(request.method), part(request.target), part(request.host)};
    for (const Header& header : request.headers)
      one.headers.push_back({part(header.name), part(header.value)});
    one.complete = parsed.complete;
    if (const TargetShape& shape = request.target_shape; shape.of != nullptr) {
      std::array<char, 64> buffer;
      const NormalPath path = normal_path(request.target, buffer, scans_of(InstructionSet::portable));
      EXPECT_EQ(static_cast<const void*>(shape.of), request.target.data());
      EXPECT_EQ(shape.size, request.target.size());
      EXPECT_EQ(path.text.data(), request.target.data()) << "not in its normal form: " << request.target;
      EXPECT_EQ(shape.path, path.text.size()) << request.target;
      EXPECT_EQ(shape.slashes, path.slashes) << request.target;
    }
  }
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    char hex[5];
    std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    out += c >= 0x20 && c < 0x7f && c != '\\' ? std::string(1, c) : std::string(hex);
  }
  return out;
}

template <std::size_t count>
std::string_view one_of(Random& random, const std::string_view (&choices)[count]) {
  return choices[random() % count];
}

std::string bytes(Random& random, std::size_t length, std::string_view alphabet) {
  std::string text(length, '\0');
  for (char& c : text)
    c = alphabet.empty() ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
  return text;
}

constexpr std::string_view names[] = {"Host",
                                      "host",
                                      "X-Api-Key",
                                      "x-api-key",
                                      "Content-Length",
                                      "Hos",
                                      "Authorization",
                                      "Transfer-Encoding",
                                      "Cookie",
                                      "hostx",
                                      "X",
                                      "CONTENT-LENGTH",
                                      "AUTHORIZATION",
                                      "H\x0fst",
                                      "X-Api\rKey",
                                      "x_api_key",
                                      "X-Long-Name-Of-Sixty-Four-Bytes-Which-Is-As-Long-As-Any-Name-Is."};

/// A payload near to what clients and attackers send. Everything that a search looks for occurs at every
/// distance from a window's edge.
std::string payload(Random& random) {
  constexpr std::string_view methods[] = {"GET", "GET",      "POST", "HEAD", "CONNECT",
                                          "get", "M-SEARCH", "G(T",  "",     "X"};
  constexpr std::string_view versions[] = {"HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0",
                                           "HTTP/1.2", "HTTP/2.0", "HTTP/1.1 "};
  constexpr std::string_view ends[] = {"\r\n", "\r\n",   "\r\n", "\r\n",   "\r\n",     "\r\n",
                                       "\n",   "\r\r\n", "\r",   "\r\n\t", "\r\nX\r\n"};
  constexpr std::string_view spaces[] = {" ", " ", " ", " ", " ", " ", "  ", "\t"};
  constexpr std::string_view colons[] = {": ", ": ", ":", ":  ", ":\t", " : ", "::", ":h:", ""};
  constexpr std::string_view values[] = {
      "", "5", "05", "0", "7", "chunked", "h", "example.com:80", "a\r", "b \t", "18446744073709551616"};
  std::string text;
  const std::size_t requests = 1 + random() % 2;
  for (std::size_t i = 0; i < requests; ++i) {
    if (random() % 8 == 0) text += one_of(random, ends);
    text.append(one_of(random, methods)).append(one_of(random, spaces));
    text.append(random() % 16 == 0 ? "http://H/" : random() % 16 == 0 ? "" : "/");
    text.append(bytes(random, random() % (random() % 16 == 0 ? 200 : 24), "abcXYZ/%?#.:0"));
    text.append(one_of(random, spaces)).append(one_of(random, versions)).append(one_of(random, ends));
    const std::size_t fields = random() % (random() % 64 == 0 ? 70 : 8);
    for (std::size_t field = 0; field < fields; ++field) {
      text.append(one_of(random, names)).append(one_of(random, colons));
      text.append(random() % 2 == 0 ? std::string(one_of(random, values))
                                    : bytes(random, random() % 90, "ab:- \t"));
      text.append(one_of(random, ends));
    }
    if (random() % 8 != 0) text.append(one_of(random, ends));
    if (random() % 2 == 0) text.append(bytes(random, random() % 9, "ab:\n\r "));
  }
  const std::size_t changes = random() % 4 == 0 ? random() % 4 : 0;
  for (std::size_t i = 0; i < changes && !text.empty(); ++i) {
    const std::size_t at = random() % text.size();
    constexpr std::string_view telling = "\r\n: \t\0\x7f\xffHh-";
    switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text[at] = telling[random() % telling.size()];
        break;
      case 2:
        text.erase(at, 1 + random() % 3);
        break;
      default:
        text.insert(at, 1, telling[random() % telling.size()]);
    }
  }
  if (random() % 4 == 0) text.resize(random() % (text.size() + 1));
  text.resize(std::min<std::size_t>(text.size(), 4096));
  return text;
}

static_assert(names[std::size(names) - 1].size() == SoughtFields::max_name);

void select(HeaderSelection& selection, std::size_t which) {
  constexpr std::string_view three[] = {"authorization", "x-api-key", "host"};
  constexpr std::string_view many[] = {
      "x-api-key", "content-length",
      "x",         "cookie",
      "hos",       "hostx",
      "x_api_key", "x-long-name-of-sixty-four-bytes-which-is-as-long-as-any-name-is."};
  // Of these the first shares its first and last bytes with another, and the others never equal a name in
  // lower case.
  constexpr std::string_view odd[] = {"x-long-name-of-sixty-four-bytes+which-is-as-long-as-any-name-is.", "X",
                                      "host:", "x\ny"};
  if (which == 1)
    for (const auto name : three) selection.add(name);
  if (which >= 2)
    for (const auto name : many) selection.add(name);
  if (which == 3)
    for (const auto name : odd) selection.add(name);
}

TEST(InstructionSets, ThereIsAlwaysThePortableOne) {
  EXPECT_TRUE(has_instruction_set(InstructionSet::portable));
  EXPECT_TRUE(has_instruction_set(best_instruction_set()));
  EXPECT_EQ(&scans_of(InstructionSet::portable), &scans_of(InstructionSet::portable));
}

TEST(InstructionSets, WhatTheMachineHasNotIsReplacedByThePortableOne) {
  for (const InstructionSet set : {InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512})
    EXPECT_EQ(&scans_of(set) == &scans_of(InstructionSet::portable), !has_instruction_set(set));
}

TEST(InstructionSets, FindTheSameRequestsInAnyPayload) {
  const std::uint64_t first = seed();
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(first));
  constexpr std::size_t selections = 4;
  std::vector<std::array<HeaderSelection, selections>> of_set;
  std::array<HeaderSelection, selections> portable;
  portable.fill(HeaderSelection(InstructionSet::portable));
  for (std::size_t i = 0; i < selections; ++i) select(portable[i], i);
  for (const InstructionSet set : vector_sets()) {
    auto& own = of_set.emplace_back();
    own.fill(HeaderSelection(set));
    for (std::size_t i = 0; i < selections; ++i) select(own[i], i);
  }

  Random random(first);
  Fenced fenced;
  std::vector<Found> expected;
  std::vector<Found> found;
  std::uint64_t requests = 0;
  for (std::uint64_t i = 0; i < heads(); ++i) {
    const std::string text = payload(random);
    const std::string_view placed = i % 8 == 0 ? fenced.at_begin(text) : fenced.at_end(text);
    const std::size_t which = random() % selections;
    requests_in(placed, portable[which], expected);
    requests += expected.size();
    for (std::size_t set = 0; set < of_set.size(); ++set) {
      requests_in(placed, of_set[set][which], found);
      ASSERT_TRUE(found == expected) << "vector set " << set << ", selection " << which << ", payload " << i
                                     << ": " << printable(text);
    }
  }
  EXPECT_GT(requests, heads() / 4) << "the payloads must not all be refused";
}

// The spellings that a vector search takes for itself, in every length and at every place of every mark.
TEST(InstructionSets, FindTheSameAtEveryDistanceFromAWindowsEdge) {
  HeaderSelection portable(InstructionSet::portable);
  select(portable, 1);
  Fenced fenced;
  std::vector<Found> expected;
  std::vector<Found> found;
  for (const InstructionSet set : vector_sets()) {
    HeaderSelection own(set);
    select(own, 1);
    for (std::size_t path = 1; path < 150; ++path) {
      for (std::size_t before = 0; before < 70; ++before) {
        const std::string text = "GET /" + std::string(path - 1, 'p') +
                                 " HTTP/1.1\r\nA: " + std::string(before, 'v') +
                                 "\r\nX-Api-Key: k\r\nHOST:h\r\nAuthorization:\t" + std::string(before, 'w') +
                                 " \r\n\r\nGET /2 HTTP/1.0\n\n";
        const std::string_view placed = fenced.at_end(text);
        requests_in(placed, portable, expected);
        requests_in(placed, own, found);
        ASSERT_EQ(expected.size(), 2u);
        ASSERT_TRUE(found == expected) << printable(text);
      }
    }
  }
}

// However the last lines lie in the window in which the head ends: a search has room for so many, and no
// more.
TEST(InstructionSets, LeaveHeadsOfVeryManyLinesToThePortableOne) {
  Fenced fenced;
  std::vector<Found> expected;
  std::vector<Found> found;
  for (const std::string_view name : {"x", "id", "host"}) {
    HeaderSelection portable(InstructionSet::portable);
    portable.add(name);
    for (const InstructionSet set : vector_sets()) {
      HeaderSelection own(set);
      own.add(name);
      for (std::size_t lines = 100; lines <= 200; ++lines) {
        for (std::size_t before = 0; before < 66; ++before) {
          std::string text = "GET / HTTP/1.1\r\n" + std::string(name) + ":" + std::string(before, 'v') + "\n";
          for (std::size_t line = 1; line < lines; ++line) text.append(name).append(":\n");
          text += "\n12345678";
          const std::string_view placed = fenced.at_end(text);
          requests_in(placed, own, found);
          requests_in(placed, portable, expected);
          ASSERT_TRUE(found == expected) << name << ", " << lines << " lines, " << before;
        }
      }
    }
  }
}

TEST(InstructionSets, FindTheVectorSearchesOwnSpellingThemselves) {
  const std::string text = "GET /a HTTP/1.1\r\nHost: h\r\nX-Api-Key: k\r\n\r\n";
  for (const InstructionSet set : vector_sets()) {
    FoundHead head;
    const SoughtFields none;
    ASSERT_TRUE(scans_of(set).find_head(text.data(), text.size(), none, head))
        << "left to the portable parser";
    EXPECT_TRUE(head.complete);
    EXPECT_EQ(head.end, text.size());
    EXPECT_EQ(head.count, 0u);
    EXPECT_TRUE(head.path_normal);
    EXPECT_EQ(head.path_end, 6u);
  }
}

TEST(InstructionSets, FindTheSameShapesOfPathsAndHosts) {
  const std::uint64_t first = seed();
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(first));
  Random random(first);
  Fenced fenced;
  std::array<char, 256> expected_buffer;
  std::array<char, 256> buffer;
  for (std::uint64_t i = 0; i < heads() / 4; ++i) {
    const std::string_view alphabet =
        random() % 4 == 0 ? std::string_view("/.%?#a2") : std::string_view("/abcdefgh");
    const std::string text =
        (random() % 8 == 0 ? "" : "/") + bytes(random, random() % (random() % 8 == 0 ? 300 : 70), alphabet);
    const std::string host = bytes(random, random() % 80, random() % 4 == 0 ? ".:[]@Aa" : "abc.");
    const std::size_t room = random() % 4 == 0 ? 1 + random() % 80 : buffer.size();
    const std::string_view expected_path = normalise_path(text, std::span(expected_buffer).first(room));
    for (const InstructionSet set : vector_sets()) {
      const Scans& scans = scans_of(set);
      const std::string_view path = fenced.at_end(text);
      const PathShape shape = scans.path_shape(path.data(), path.size());
      const PathShape expected = scans_of(InstructionSet::portable).path_shape(path.data(), path.size());
      ASSERT_EQ(shape.length, expected.length) << printable(text);
      ASSERT_EQ(shape.normal, expected.normal) << printable(text);
      ASSERT_EQ(shape.slashes, expected.slashes) << printable(text);
      const NormalPath normal = normal_path(path, std::span(buffer).first(room), scans);
      ASSERT_EQ(normal.text, expected_path) << printable(text);
      const PathSegments segments(normal.text, normal.slashes);
      const PathSegments same(normal.text);
      ASSERT_EQ(segments.count(), same.count()) << printable(text);
      for (std::size_t k = 0; k < std::min(same.count(), max_path_template_segments); ++k)
        ASSERT_EQ(segments[k], same[k]) << printable(text);

      const std::string_view placed = fenced.at_end(host);
      std::array<char, 64> host_buffer;
      std::array<char, 64> expected_host;
      ASSERT_EQ(normalise_host(placed, host_buffer, scans), normalise_host(placed, expected_host))
          << printable(host);
    }
  }
}

TEST(InstructionSets, LeadToTheSameRulesAndKeys) {
  using Kind = Dimension::Kind;
  const std::uint64_t first = seed();
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(first));
  std::vector<Rule> rules(4);
  rules[0].key = {{Kind::host, 32, 64, {}}, {Kind::path, 32, 64, {}}, {Kind::header, 32, 64, "x-api-key"}};
  rules[1].match.path = "/a/{x}/**";
  rules[1].key = {
      {Kind::path_variable, 32, 64, "x"}, {Kind::method, 32, 64, {}}, {Kind::header, 32, 64, "x"}};
  rules[2].match.host = "*.com";
  rules[2].match.path = "/{first}/b";
  rules[2].key = {{Kind::path_variable, 32, 64, "first"}};
  rules[3].match.path = "/a/**";
  const Classifier portable(rules, InstructionSet::portable);
  std::vector<Classifier> own;
  for (const InstructionSet set : vector_sets()) own.emplace_back(rules, set);

  const auto told = [](const Classifier& classifier, std::string_view payload) {
    std::string text;
    Classifier::Scratch scratch;
    KeyBytes key;
    HttpRequests requests(payload, classifier.headers());
    ParsedRequest parsed;
    while (requests.next(parsed)) {
      classifier.match(parsed.request, scratch);
      for (std::size_t i = 0; i < scratch.rule_count; ++i) {
        classifier.make_key(scratch.rules[i], parsed.request, scratch, key);
        text += key_name(std::to_string(scratch.rules[i]), key.bytes()) + "\n";
      }
    }
    return text;
  };
  Random random(first);
  Fenced fenced;
  std::size_t keys = 0;
  for (std::uint64_t i = 0; i < heads() / 20; ++i) {
    std::string text = payload(random);
    // Paths that the rules know.
    if (const std::size_t at = text.find(" /"); at != std::string::npos && random() % 2 == 0)
      text.insert(at + 1, random() % 2 == 0 ? "/a" : "/a/b/");
    text.resize(std::min<std::size_t>(text.size(), 4096));
    const std::string_view placed = fenced.at_end(text);
    const std::string expected = told(portable, placed);
    keys += expected.size();
    for (const Classifier& classifier : own) ASSERT_EQ(told(classifier, placed), expected) << printable(text);
  }
  EXPECT_GT(keys, heads() / 20);
}

/// Rules of all kinds of matches and dimensions.
std::vector<Rule> rules_of_all_kinds() {
  using Kind = Dimension::Kind;
  std::vector<Rule> rules(8);
  rules[0].key = {{Kind::method, 32, 64, {}}, {Kind::path, 32, 64, {}}};
  rules[1].key = {{Kind::host, 32, 64, {}},
                  {Kind::path, 32, 64, {}},
                  {Kind::header, 32, 64, "authorization"},
                  {Kind::header, 32, 64, "x-api-key"},
                  {Kind::method, 32, 64, {}}};
  rules[2].match.path = "/a/{x}/**";
  rules[2].key = {{Kind::path_variable, 32, 64, "x"}, {Kind::header, 32, 64, "cookie"}};
  rules[3].match = rules[2].match;
  rules[3].key = {{Kind::source_address, 20, 64, {}}, {Kind::destination_port, 32, 64, {}}};
  rules[4].match.host = "*.com";
  rules[4].key = {{Kind::header, 32, 64, "x"},
                  {Kind::header, 32, 64, "x"},
                  {Kind::header, 32, 64, "x"},
                  {Kind::header, 32, 64, "x"}};
  rules[5].match.methods = {"GET", "CONNECT"};
  rules[5].match.destination_ports = {80, 81};
  rules[5].key = {{Kind::destination_address, 0, 64, {}}};
  rules[6].match.path = "/a";
  rules[7].match.path = "/{first}/b";
  rules[7].key = {{Kind::path_variable, 32, 64, "first"}};
  return rules;
}

/// A plain frame with a payload, and what Classifier says of it.
class FrameOf {
 public:
  FrameOf(Fenced& fenced, const std::string& text, Random& random) {
    constexpr std::size_t headers = 54;
    std::string bytes(headers, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    bytes[36] = '\0';
    bytes[37] = static_cast<char>(random() % 3 == 0 ? 0 : 79 + random() % 3);
    placed_ = fenced.at_end(bytes + text);
    frame_ = {reinterpret_cast<const std::byte*>(placed_.data()),
              {headers, static_cast<std::uint32_t>(text.size())}};
  }
  const PlainFrame& frame() const { return frame_; }
  std::string_view payload() const { return placed_.substr(frame_.payload.offset); }

 private:
  std::string_view placed_;
  PlainFrame frame_;
};

/// Whether the keys of a plain request are those that the classifier finds. Rules without key have none.
void expect_same_keys(const Classifier& classifier, const std::vector<Rule>& rules, const KeyHash& hash,
                      const FrameOf& frame, const PlainKeys& keys, std::size_t at) {
  HttpRequests requests(frame.payload(), classifier.headers());
  ParsedRequest parsed;
  ASSERT_TRUE(requests.next(parsed));
  set_plain_endpoints(parsed.request, {frame.frame().bytes, 54});
  Classifier::Scratch scratch;
  classifier.match(parsed.request, scratch);
  std::size_t next = 0;
  for (std::size_t i = 0; i < keys.rule_count; ++i) {
    const PlainKeys::OfRule& of_rule = keys.rules[i];
    const bool applies = next < scratch.rule_count && scratch.rules[next] == of_rule.rule;
    ASSERT_EQ((of_rule.requests >> at & 1) != 0, applies) << "rule " << of_rule.rule;
    if (!applies) continue;
    ++next;
    if (!rules[of_rule.rule].key.empty()) {
      ASSERT_EQ(of_rule.hashes[at], classifier.hash_key(of_rule.rule, parsed.request, scratch, hash))
          << "rule " << of_rule.rule;
    }
    KeyBytes expected;
    KeyBytes key;
    classifier.make_key(of_rule.rule, parsed.request, scratch, expected);
    classifier.plain().make_key(of_rule.rule, frame.frame(), keys.heads, at, key);
    ASSERT_TRUE(std::ranges::equal(key.bytes(), expected.bytes())) << "rule " << i;
  }
  ASSERT_EQ(next, scratch.rule_count);
  ASSERT_FALSE(requests.next(parsed)) << "there is another one behind it";
}

TEST(InstructionSets, FindTheSameKeysInPlainFrames) {
  const std::uint64_t first = seed();
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(first));
  // Where no field is asked for more of the payloads are plain, the cut ones, too.
  std::vector<Rule> without_fields(2);
  without_fields[0].key = {{Dimension::Kind::method, 32, 64, {}}, {Dimension::Kind::path, 32, 64, {}}};
  without_fields[1].match.path = "/a/{x}/**";
  without_fields[1].key = {{Dimension::Kind::path_variable, 32, 64, "x"}};
  const KeyHash hash({first, 1});
  Random random(first);
  std::array<Fenced, 3> fenced;
  PlainKeys keys;
  for (const std::vector<Rule>& rules : {rules_of_all_kinds(), without_fields}) {
    const Classifier portable(rules, InstructionSet::portable);
    std::vector<Classifier> own;
    for (const InstructionSet set : vector_sets()) own.emplace_back(rules, set);
    std::size_t plain = 0;
    for (std::uint64_t i = 0; i < heads() / 20; ++i) {
      std::vector<FrameOf> frames;
      std::vector<PlainFrame> burst;
      for (Fenced& memory : fenced) {
        std::string text = payload(random);
        if (const std::size_t at = text.find(" /"); at != std::string::npos && random() % 2 == 0)
          text.insert(at + 1, random() % 2 == 0 ? "/a" : "/a/b/");
        text.resize(std::min<std::size_t>(text.size(), 4000));
        burst.push_back(frames.emplace_back(memory, text, random).frame());
      }
      for (const Classifier& classifier : own) {
        classifier.plain().classify(burst, hash, keys);
        for (std::size_t at = 0; at < burst.size(); ++at) {
          if ((keys.requests >> at & 1) == 0) continue;
          ++plain;
          SCOPED_TRACE(printable(frames[at].payload()));
          expect_same_keys(portable, rules, hash, frames[at], keys, at);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
    EXPECT_GT(plain, heads() / 2000 * own.size()) << "too few of the payloads are plain";
  }
}

TEST(InstructionSets, FindPlainRequestsOfTheUsualSpellingAndLength) {
  using Kind = Dimension::Kind;
  std::vector<Rule> rules(1);
  rules[0].key = {{Kind::host, 32, 64, {}}, {Kind::path, 32, 64, {}}, {Kind::header, 32, 64, "x-api-key"}};
  const KeyHash hash({1, 2});
  Random random(1);
  Fenced fenced;
  PlainKeys keys;
  const auto is_plain = [&](const Classifier& classifier, const std::string& text) {
    const FrameOf frame(fenced, text, random);
    classifier.plain().classify({&frame.frame(), 1}, hash, keys);
    if (keys.requests != 0) expect_same_keys(classifier, rules, hash, frame, keys, 0);
    return keys.requests == 1;
  };
  for (const InstructionSet set : vector_sets()) {
    const Classifier classifier(rules, set);
    for (std::size_t length = 0; length < 600; ++length) {
      const std::string value(length, 'v');
      const std::string end = " HTTP/1.1\r\nHost: h.example:80\r\nX-Api-Key: ";
      const std::string head = "GET /a" + end + value + "\r\n\r\n";
      EXPECT_EQ(is_plain(classifier, head), length < max_value_bytes) << length;
      EXPECT_EQ(is_plain(classifier, "POST /" + value + end + "k\r\n\r\n"), length + 6 < 64) << length;
      // What comes in the next segment may be what is sought.
      EXPECT_TRUE(is_plain(classifier, "GET /a" + end + "k\r\nA: " + value)) << length;
      EXPECT_FALSE(is_plain(classifier, "GET /a" + end + value)) << length;
      EXPECT_FALSE(is_plain(classifier, "GET /a HTTP/1.1\r\nHost: h\r\nA: " + value + "\r\nB:")) << length;
      EXPECT_FALSE(is_plain(classifier, "GET /a HTTP/1.1\r\nX-Api-Key: k\r\nA: " + value)) << length;
      EXPECT_FALSE(is_plain(classifier, "GET /a HTTP/1.1\r\nHost: h\r\nX-Api-Kez: k\r\nA: " + value))
          << length;
      // What stands behind the head.
      EXPECT_FALSE(is_plain(classifier, "GET /a" + end + "k\r\n\r\n" + std::string(length + 1, 'b')))
          << length;
    }
    EXPECT_FALSE(is_plain(classifier, ""));
    for (const char* const end : {"\r ", " \n", "\rX", "X\n", "\n\r", " \r\n"})
      EXPECT_FALSE(
          is_plain(classifier, "GET /a HTTP/1.1" + std::string(end) + "Host: h\r\nX-Api-Key: k\r\n\r\n"))
          << printable(end);
    EXPECT_FALSE(is_plain(classifier, "GET //a HTTP/1.1\r\n\r\n"));
    EXPECT_FALSE(is_plain(classifier, "GET /\x7f HTTP/1.1\r\nA: 12345678\r\n\r\n"));
    EXPECT_FALSE(is_plain(classifier, "G[T /a HTTP/1.1\r\nA: 12345678\r\n\r\n"));
    EXPECT_FALSE(is_plain(classifier, "G@T /a HTTP/1.1\r\nA: 12345678\r\n\r\n"));
    // However many lines end in one window.
    for (const char* const line : {"x\n", "xxxxx\n"}) {
      for (std::size_t lines = 1; lines < 200; ++lines) {
        std::string dense = "GET /a HTTP/1.1\r\n";
        for (std::size_t i = 0; i < lines; ++i) dense += line;
        EXPECT_EQ(is_plain(classifier, dense + "X-Api-Key: c\r\n\r\n"), lines < 62) << lines;
      }
    }
    for (const std::size_t size : {0xffff, 0x10000}) {
      const std::string head = "GET /a HTTP/1.1\r\nA: ";
      const std::string rest = "\r\nX-Api-Key: c\r\n\r\n";
      EXPECT_EQ(is_plain(classifier, head + std::string(size - head.size() - rest.size(), 'a') + rest),
                size == 0xffff);
    }
    EXPECT_FALSE(is_plain(classifier, "GET /%61 HTTP/1.1\r\n\r\n"));
    EXPECT_FALSE(is_plain(classifier, "GET /a HTTP/1.1\r\nHost: A\r\n\r\n"));
    EXPECT_TRUE(
        is_plain(classifier, "GET /a HTTP/1.1\r\nX-Api-Kit: a\r\nX-Api-Ke: b\r\nX-Api-Key: c\r\n\r\n"));
    // A request line is no field, whatever is sought.
    const std::vector<Rule> odd = [] {
      std::vector<Rule> of_one(1);
      of_one[0].key = {{Kind::header, 32, 64, "et /ab"}};
      return of_one;
    }();
    const Classifier of_odd(odd, set);
    const FrameOf as_field(
        fenced, "GET /ab: HTTP/1.1\r\nHost: h.example\r\nAccept: text/html\r\nA: 12345678\r\n\r\n", random);
    of_odd.plain().classify({&as_field.frame(), 1}, hash, keys);
    ASSERT_EQ(keys.requests, 1U);
    expect_same_keys(of_odd, odd, hash, as_field, keys, 0);
    EXPECT_TRUE(is_plain(classifier, "GET /a?%61 HTTP/1.0\r\nhost: b\r\nX-API-KEY:\t\r\n\r\n"));
    // A value may stand in the next line.
    EXPECT_FALSE(is_plain(classifier, "GET /a HTTP/1.1\r\nHost: h\r\nX-Api-Key:\r\n b\r\n\r\n"));
    EXPECT_FALSE(is_plain(classifier, "GET /a HTTP/1.1\r\nX-Api-Key: \r\n\tb\r\nHost: h\r\n\r\n"));
    EXPECT_TRUE(is_plain(classifier, "GET /a HTTP/1.1\r\nX-Api-Key: \r\nHost: h\r\n\r\n"));
    EXPECT_FALSE(is_plain(classifier, "GET /a HTTP/1.1\r\nHost:\r\n b\r\nX-Api-Key: c\r\n\r\n"));
    EXPECT_FALSE(is_plain(classifier, "GET /a HTTP/1.1\r\nHost: \t\r\nhost: b\r\nX-Api-Key: c\r\n\r\n"));
  }
}

// A payload may end as a head does, and be more than that.
TEST(InstructionSets, FindNoPlainRequestWhereAnythingStandsBehindItsHead) {
  using Kind = Dimension::Kind;
  std::vector<Rule> without_fields(1);
  without_fields[0].key = {{Kind::method, 32, 64, {}}, {Kind::path, 32, 64, {}}};
  std::vector<Rule> with_fields(1);
  with_fields[0].key = {{Kind::path, 32, 64, {}}, {Kind::header, 32, 64, "x-api-key"}};
  const KeyHash hash({1, 2});
  Random random(1);
  Fenced fenced;
  PlainKeys keys;
  for (const InstructionSet set : vector_sets()) {
    for (const std::vector<Rule>* const rules : {&without_fields, &with_fields}) {
      const Classifier classifier(*rules, set);
      const auto is_plain = [&](const std::string& text) {
        const FrameOf frame(fenced, text, random);
        classifier.plain().classify({&frame.frame(), 1}, hash, keys);
        if (keys.requests != 0) expect_same_keys(classifier, *rules, hash, frame, keys, 0);
        return keys.requests == 1;
      };
      for (std::size_t length = 0; length < 200; ++length) {
        const std::string head = "GET /a HTTP/1.1\r\nA: " + std::string(length, 'v') + "\r\n";
        const std::string rest = "X-Api-Key: 12345678\r\n\r\n";
        EXPECT_TRUE(is_plain(head + rest)) << length;
        EXPECT_FALSE(is_plain(head + "\r\n" + rest)) << length;
        EXPECT_FALSE(is_plain(head + "\n" + rest)) << length;
        EXPECT_FALSE(is_plain(head + rest + "\r\n\r\n")) << length;
        EXPECT_FALSE(is_plain(head + rest + head + rest)) << length;
        // A line of one character is none of nothing.
        EXPECT_TRUE(is_plain(head + "x\n" + rest)) << length;
        EXPECT_TRUE(is_plain(head + "X-Api-Key: 12345678\r\n\n")) << length;
      }
    }
  }
}

// Several requests are looked at at once, and hashed: of a burst of any length, with others among them, under
// rules that apply to some.
TEST(InstructionSets, FindTheSameKeysWhereverInABurstARequestStands) {
  using Kind = Dimension::Kind;
  std::vector<Rule> rules(3);
  rules[0].key = {{Kind::method, 32, 64, {}}, {Kind::path, 32, 64, {}}};
  rules[1].match.methods = {"POST"};
  rules[1].key = {{Kind::header, 32, 64, "x-api-key"}};
  for (const char* const name : {"a", "b", "x-api-key", "c", "d", "e", "f"})
    rules[2].key.push_back({Kind::header, 32, 64, name});
  const KeyHash hash({1, 2});
  const Classifier portable(rules, InstructionSet::portable);
  std::vector<Classifier> own;
  for (const InstructionSet set : vector_sets()) own.emplace_back(rules, set);
  Random random(1);
  std::vector<Fenced> fenced(PlainKeys::most_frames);
  PlainKeys keys;
  for (std::size_t count = 1; count <= PlainKeys::most_frames; ++count) {
    for (int repeat = 0; repeat < 8; ++repeat) {
      std::vector<FrameOf> frames;
      std::vector<PlainFrame> burst;
      std::uint32_t expected = 0;
      for (std::size_t at = 0; at < count; ++at) {
        // As long as a piece of the hash, more or less; now and then absent.
        const auto value = [&] {
          return std::string(random() % 2 == 0 ? 31 + random() % 3 : random() % 100, 'v');
        };
        std::string text = random() % 2 == 0 ? "GET" : "POST";
        text += " /" + std::string(random() % 30, 'p') + " HTTP/1." + std::to_string(random() % 2) + "\r\n";
        for (const char* const name : {"A", "X-Api-Key", "C", "E"})
          if (random() % 4 != 0) text += std::string(name) + ": " + value() + "\r\n";
        text += "\r\n";
        const bool plain = repeat < 2 || random() % 4 != 0;
        expected |= std::uint32_t{plain} << at;
        if (!plain) text = random() % 2 == 0 ? text + text : "PUT" + text.substr(0, random() % 14);
        burst.push_back(frames.emplace_back(fenced[at], text, random).frame());
      }
      std::optional<std::uint32_t> found;
      for (const Classifier& classifier : own) {
        // What the set before has found must not help this one.
        std::memset(static_cast<void*>(&keys), 0xa5, sizeof keys);
        keys.columns.fill(PlainKeys::no_column);
        classifier.plain().classify(burst, hash, keys);
        // A key may be longer than what is hashed so.
        ASSERT_EQ(keys.requests & ~expected, 0U) << count;
        if (&classifier > &own.front() + 1) {
          ASSERT_EQ(keys.requests, *found) << count;
        }
        found = keys.requests;
        for (std::size_t at = 0; at < count; ++at) {
          if ((keys.requests >> at & 1) == 0) continue;
          SCOPED_TRACE(printable(frames[at].payload()));
          expect_same_keys(portable, rules, hash, frames[at], keys, at);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

/// A line of a header section, mostly of the usual spelling.
std::string field_line(const std::string& name, Random& random) {
  const auto any_of = [&](std::initializer_list<const char*> texts) {
    return std::string(texts.begin()[random() % texts.size()]);
  };
  const auto seldom = [&] { return random() % 16 == 0; };
  std::string line = name;
  for (char& c : line)
    if (c >= 'a' && c <= 'z' && random() % 4 == 0) c = static_cast<char>(c - 'a' + 'A');
  line += seldom() ? any_of({":", ":\t", ":  ", ": \t", " : ", ""}) : ": ";
  std::string value(random() % 70, 'v');
  if (seldom()) value = any_of({"", ":80", ".", ".:80", "h.:80", "H", "[::1]", "u@h", "!", "\x1f", "\x80"});
  if (seldom()) value.append(random() % 300, 'w');
  line += value + (seldom() ? any_of({".", ":8080", ".:80"}) : "");
  line += seldom() ? any_of({" ", "\t", " \r", "\r"}) : "";
  return line + (seldom() ? "\n" : "\r\n");
}

// Fields are looked for in several requests at once, and several lines of each: wherever one stands among the
// lines, whichever begin as it does, and however many are sought.
TEST(InstructionSets, FindTheSameFieldsHoweverTheyAreSpelt) {
  using Kind = Dimension::Kind;
  const std::vector<std::string> chosen = {"a",
                                           "x-api-key",
                                           "x-forwarded-for",
                                           "x-forwarded-host",
                                           std::string(61, 'n'),
                                           std::string(62, 'n'),
                                           std::string(64, 'n'),
                                           "c"};
  const std::vector<std::string> others = {
      "x-forwarded-proto", "x-api-kez", "x-api-ke", "accept", "b", "\tc", " x"};
  const KeyHash hash({1, 2});
  Random random(seed());
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(seed()));
  std::vector<Fenced> fenced(PlainKeys::most_frames);
  PlainKeys keys;
  for (std::size_t sought = 0; sought <= chosen.size(); ++sought) {
    std::vector<Rule> rules(2);
    rules[0].key = {{Kind::host, 32, 64, {}}};
    rules[1].key = {{Kind::path, 32, 64, {}}};
    for (std::size_t i = 0; i < sought; ++i) rules[i % 2].key.push_back({Kind::header, 32, 64, chosen[i]});
    const Classifier portable(rules, InstructionSet::portable);
    std::vector<Classifier> own;
    for (const InstructionSet set : vector_sets()) own.emplace_back(rules, set);
    std::uint64_t plain = 0;
    std::uint64_t all = 0;
    for (std::uint64_t repeat = 0; repeat < 20 + heads() / 5000; ++repeat) {
      std::vector<FrameOf> frames;
      std::vector<PlainFrame> burst;
      const std::size_t count = 1 + random() % PlainKeys::most_frames;
      for (std::size_t at = 0; at < count; ++at) {
        std::string text = "GET /" + std::string(random() % 30, 'p') + " HTTP/1.1\r\n";
        for (std::size_t lines = random() % 12; lines != 0; --lines) {
          const std::size_t which = random() % (chosen.size() + 2);
          text += which == 0   ? field_line(others[random() % others.size()], random)
                  : which == 1 ? field_line("host", random)
                               : field_line(chosen[which - 2], random);
        }
        if (random() % 16 == 0)
          for (std::size_t lines = random() % 70; lines != 0; --lines) text += "x\n";
        // About as many line ends as are looked at in one window.
        if (random() % 8 == 0)
          for (std::size_t lines = 10 + random() % 12; lines != 0; --lines)
            text += random() % 2 == 0 ? "a:b\n" : "a\r\n";
        if (random() % 16 == 0) text += "\r\n" + field_line("b", random);
        // As much of a name as is compared, and nothing behind it.
        if (random() % 16 == 0) text += random() % 2 == 0 ? "X-Forwar\r\n" : "nnnnnnnn\r\n";
        text += "\r\n";
        burst.push_back(frames.emplace_back(fenced[at], text, random).frame());
      }
      std::optional<std::uint32_t> found;
      for (const Classifier& classifier : own) {
        // What the set before has found must not help this one.
        std::memset(static_cast<void*>(&keys), 0xa5, sizeof keys);
        keys.columns.fill(PlainKeys::no_column);
        classifier.plain().classify(burst, hash, keys);
        // Keys near the most that is hashed are those of one of the sets only.
        if (&classifier > &own.front() + 1) {
          ASSERT_EQ(keys.requests, *found);
        }
        found = keys.requests;
        all += count;
        for (std::size_t at = 0; at < count; ++at) {
          if ((keys.requests >> at & 1) == 0) continue;
          ++plain;
          SCOPED_TRACE(printable(frames[at].payload()));
          expect_same_keys(portable, rules, hash, frames[at], keys, at);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
    EXPECT_GT(plain, all / 4) << "too few of the payloads are plain";
  }
}

TEST(InstructionSets, FindTheSameKeysWhateverComesNext) {
  using Kind = Dimension::Kind;
  std::vector<Rule> rules(1);
  rules[0].key = {{Kind::method, 32, 64, {}}, {Kind::path, 32, 64, {}}};
  const KeyHash hash({1, 2});
  Random random(1);
  std::array<Fenced, 3> memory;
  const std::string head = "GET /a HTTP/1.1\r\nHost: h.example\r\nX-Api-Key: k\r\n\r\n";
  const std::array<FrameOf, 2> frames{FrameOf(memory[0], head, random), FrameOf(memory[1], head, random)};
  const std::array<PlainFrame, 2> burst{frames[0].frame(), frames[1].frame()};
  for (const bool with_field : {false, true}) {
    if (with_field) rules[0].key.push_back({Kind::host, 32, 64, {}});
    for (const InstructionSet set : vector_sets()) {
      const Classifier classifier(rules, set);
      for (const std::size_t count : {1, 2, 3, 31, 32}) {
        // Short, long and not plain; none is read, and none looked for behind the last one.
        std::vector<PlainFrame> next;
        for (std::size_t i = 0; i < count; ++i)
          next.push_back({reinterpret_cast<const std::byte*>(frames[i % 2].payload().data()),
                          {54, static_cast<std::uint32_t>(i % 3 == 0 ? 10 : i * 1000)}});
        next[count / 2] = {};
        const std::string_view last =
            memory[2].at_end({reinterpret_cast<const char*>(next.data()), count * sizeof(PlainFrame)});
        PlainKeys keys;
        classifier.plain().classify(burst, hash, keys,
                                    {reinterpret_cast<const PlainFrame*>(last.data()), count});
        ASSERT_EQ(keys.requests, 0b11U);
        for (std::size_t at = 0; at < burst.size(); ++at)
          expect_same_keys(classifier, rules, hash, frames[at], keys, at);
      }
    }
  }
}

// There is key for the longest keys that are kept as they are, and not for whatever clients send.
TEST(InstructionSets, ReadNoMoreOfTheSecretThanThereIs) {
  using Kind = Dimension::Kind;
  // Texts within a vector's reach, and some beyond.
  std::vector<std::vector<Rule>> many(2, std::vector<Rule>(1));
  many[0][0].key = {{Kind::method, 32, 64, {}}, {Kind::path, 32, 64, {}}};
  for (std::size_t i = 0; i < max_dimensions; ++i)
    for (std::vector<Rule>& rules : many)
      if (rules[0].key.size() < max_dimensions)
        rules[0].key.push_back({Kind::header, 32, 64, "h" + std::to_string(i)});
  std::vector<Rule> one(1);
  one[0].key = {many[1][0].key[0]};
  Fenced secret;
  const KeyHash made({1, 2});
  const auto* const hash = reinterpret_cast<const KeyHash*>(
      secret.at_end({reinterpret_cast<const char*>(&made), sizeof made}).data());
  Random random(1);
  Fenced fenced;
  PlainKeys keys;
  for (const InstructionSet set : vector_sets()) {
    const Classifier of_one(one, set);
    const std::array<Classifier, 2> of_many{Classifier(many[0], set), Classifier(many[1], set)};
    for (std::size_t length = 0; length < 3000; length += length < 160 ? 1 : 61) {
      std::string head = "GET /a HTTP/1.1\r\n";
      for (std::size_t i = 0; i < max_dimensions && length < 480; ++i)
        head += "h" + std::to_string(i) + ": " + std::string(length, 'v') + "\r\n";
      const FrameOf frame(fenced, head + "\r\n", random);
      for (std::size_t i = 0; i < many.size(); ++i) {
        of_many[i].plain().classify({&frame.frame(), 1}, *hash, keys);
        if (keys.requests != 0) expect_same_keys(of_many[i], many[i], *hash, frame, keys, 0);
        EXPECT_TRUE(length <= (i == 0 ? 48 : 36) || length >= 480 || keys.requests == 0) << length;
        EXPECT_TRUE((length > 30 && length < 480) || keys.requests == 1) << length;
      }
      const FrameOf single(fenced, "GET /a HTTP/1.1\r\nh0: " + std::string(length, 'v') + "\r\n\r\n", random);
      of_one.plain().classify({&single.frame(), 1}, *hash, keys);
      EXPECT_EQ(keys.requests, length < max_value_bytes ? 1U : 0U) << length;
    }
  }
}

/// First segments that begin alike, of all lengths about a word's, and paths below them.
std::string path_among_many(Random& random) {
  constexpr std::string_view segments[] = {
      "s",        "se",     "service-", "service-1", "service-10", "service-2",  "serviced-1", "service-100",
      "services", "servic", "a",        "b",         "users",      "static-web", "static-w"};
  std::string path;
  for (std::uint64_t i = 0, count = 1 + random() % 3; i < count; ++i)
    path.append("/").append(random() % 2 == 0 ? "service-" + std::to_string(random() % 90)
                                              : std::string(segments[random() % std::size(segments)]));
  return path;
}

TEST(InstructionSets, FindThoseThatApplyAmongManyRules) {
  using Kind = Dimension::Kind;
  const std::uint64_t first = seed();
  SCOPED_TRACE("WEIR_TEST_SEED=" + std::to_string(first));
  const KeyHash hash({first, 1});
  Random random(first);
  std::array<Fenced, 32> fenced;
  PlainKeys keys;
  std::size_t plain = 0;
  std::size_t left_out = 0;
  for (int run = 0; run < 200; ++run) {
    std::vector<Rule> rules(max_rules_per_request + 1 + random() % 60);
    for (Rule& rule : rules) {
      rule.match.path = path_among_many(random) + (random() % 3 == 0   ? "/**"
                                                   : random() % 3 == 0 ? "/{x}"
                                                                       : "");
      if (random() % 8 == 0) rule.match.path = random() % 2 == 0 ? "/{x}/**" : "/*/a";
      if (random() % 8 == 0) rule.match.methods = {"POST"};
      if (random() % 4 != 0) rule.key = {{Kind::path, 32, 64, {}}};
    }
    if (random() % 2 == 0) rules[random() % rules.size()].match = {};
    const Classifier classifier(rules, best_instruction_set());
    std::vector<FrameOf> frames;
    std::vector<PlainFrame> burst;
    for (Fenced& memory : fenced) {
      const std::string text = (random() % 4 == 0 ? "POST " : "GET ") + path_among_many(random) +
                               (random() % 8 == 0 ? "/" : "") + " HTTP/1.1\r\nHost: a\r\n\r\n";
      burst.push_back(frames.emplace_back(memory, text, random).frame());
    }
    classifier.plain().classify(burst, hash, keys);
    for (std::size_t at = 0; at < burst.size(); ++at) {
      HttpRequests requests(frames[at].payload(), classifier.headers());
      ParsedRequest parsed;
      ASSERT_TRUE(requests.next(parsed));
      Classifier::Scratch scratch;
      classifier.match(parsed.request, scratch);
      std::vector<RuleIndex> expected;
      for (RuleIndex rule = 0; rule < rules.size(); ++rule) {
        Classifier::Scratch of_one;
        Classifier({&rules[rule], 1}, InstructionSet::portable).match(parsed.request, of_one);
        if (of_one.rule_count == 1 && expected.size() < max_rules_per_request) expected.push_back(rule);
      }
      SCOPED_TRACE(printable(frames[at].payload()));
      ASSERT_TRUE(std::ranges::equal(std::span(scratch.rules).first(scratch.rule_count), expected));
      if ((keys.requests >> at & 1) == 0) {
        ++left_out;
        continue;
      }
      ++plain;
      expect_same_keys(classifier, rules, hash, frames[at], keys, at);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  if (best_instruction_set() == InstructionSet::portable) return;
  EXPECT_GT(plain, 1000u);
  EXPECT_GT(left_out, 0u) << "in no burst there are too many rules";
}

TEST(InstructionSets, LeaveRequestsUnderMoreRulesThanTheyMayHave) {
  Random random(1);
  Fenced fenced;
  PlainKeys keys;
  const FrameOf frame(fenced, "GET /a HTTP/1.1\r\n\r\n", random);
  for (const std::size_t count : {std::size_t{0}, max_rules_per_request, max_rules_per_request + 1}) {
    const Classifier classifier(std::vector<Rule>(count), best_instruction_set());
    classifier.plain().classify({&frame.frame(), 1}, KeyHash({1, 2}), keys);
    const bool usual = best_instruction_set() != InstructionSet::portable && count <= max_rules_per_request;
    EXPECT_EQ(keys.requests, usual ? 1u : 0u);
  }
}

}  // namespace
}  // namespace weir
