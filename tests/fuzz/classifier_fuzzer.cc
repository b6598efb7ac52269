// SPDX-License-Identifier: BSD-3-Clause
// Any request against rules, one of them with a path template from the input, too: matching, normalising,
// keys; and a frame that holds it, as one of a burst of plain frames.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/key_bytes.h"
#include "classify/classifier.h"
#include "classify/normalise.h"
#include "classify/path_template.h"
#include "classify/plain_classifier.h"
#include "fuzz/require.h"
#include "weir/packet.h"

namespace {

using namespace weir;
using Kind = Dimension::Kind;

std::vector<Rule> fixed_rules() {
  std::vector<Rule> rules(4);
  rules[0].match.path = "/users/{id}/**";
  rules[0].key = {{Kind::path_variable, 32, 64, "id"}, {Kind::path, 32, 64, {}}};
  rules[1].match.host = "*.example.com";
  rules[1].key = {{Kind::host, 32, 64, {}}, {Kind::header, 32, 64, "x-api-key"}};
  rules[2].match.methods = {"GET"};
  rules[2].key = {{Kind::method, 32, 64, {}}, {Kind::source_address, 24, 48, {}}};
  for (int i = 0; i < 4; ++i) {
    rules[3].key.push_back({Kind::path, 32, 64, {}});
    rules[3].key.push_back({Kind::header, 32, 64, "x-api-key"});
  }
  return rules;
}

// However little room there is, the result is the beginning of what it would be with enough.
void check_normalise(const std::string& target, std::size_t room) {
  std::vector<char> enough(target.size() + 2);
  const std::string whole(normalise_path(target, enough));
  std::vector<char> little(room);
  require(normalise_path(target, little) == whole.substr(0, room));
  for (const InstructionSet set : {InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512})
    require(normalise_path(target, little, scans_of(set)) == whole.substr(0, room));
  require(whole.find("//") == std::string::npos);
  require(whole.empty() || whole == "*" || whole.front() == '/');
}

void check_host(const std::string& host) {
  std::vector<char> expected(host.size() + 1);
  std::vector<char> found(host.size() + 1);
  for (const InstructionSet set : {InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512})
    require(normalise_host(host, found, scans_of(set)) == normalise_host(host, expected));
}

// What is found plain has the rules and keys of the usual way. All of it ends where its memory ends.
void check_plain(const std::vector<Rule>& rules, const std::string& payload) {
  constexpr std::size_t headers = 54;
  const std::unique_ptr<std::byte[]> bytes(new std::byte[headers + payload.size()]());
  std::memcpy(bytes.get() + headers, payload.data(), payload.size());
  const PlainFrame frame{bytes.get(), {headers, static_cast<std::uint32_t>(payload.size())}};
  const auto hash = std::make_unique<KeyHash>(HashKey{1, 2});
  const auto keys = std::make_unique<PlainKeys>();
  for (const InstructionSet set : {InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512}) {
    if (!has_instruction_set(set)) continue;
    const Classifier classifier(rules, set);
    classifier.plain().classify({&frame, 1}, *hash, *keys, {&frame, payload.size() % 2});
    if (keys->requests == 0) continue;
    HttpRequests requests({reinterpret_cast<const char*>(bytes.get()) + headers, payload.size()},
                          classifier.headers());
    ParsedRequest parsed;
    require(requests.next(parsed));
    set_plain_endpoints(parsed.request, {bytes.get(), headers});
    Classifier::Scratch scratch;
    classifier.match(parsed.request, scratch);
    std::size_t next = 0;
    for (std::size_t i = 0; i < keys->rule_count; ++i) {
      const bool applies = next < scratch.rule_count && scratch.rules[next] == keys->rules[i].rule;
      require(((keys->rules[i].requests & 1) != 0) == applies);
      if (!applies) continue;
      ++next;
      if (!rules[keys->rules[i].rule].key.empty())
        require(keys->rules[i].hashes[0] ==
                classifier.hash_key(keys->rules[i].rule, parsed.request, scratch, *hash));
      KeyBytes expected;
      KeyBytes key;
      classifier.make_key(keys->rules[i].rule, parsed.request, scratch, expected);
      classifier.plain().make_key(keys->rules[i].rule, frame, keys->heads, 0, key);
      require(std::ranges::equal(key.bytes(), expected.bytes()));
    }
    require(next == scratch.rule_count && !requests.next(parsed));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const std::string path_template = input.ConsumeRandomLengthString(80);
  const std::string method = input.ConsumeRandomLengthString(20);
  const std::string host = input.ConsumeRandomLengthString(400);
  const std::string value = input.ConsumeRandomLengthString(400);
  const auto room = input.ConsumeIntegralInRange<std::size_t>(1, 64);
  const std::string target = input.ConsumeRemainingBytesAsString();

  check_normalise(target, room);
  check_host(host);

  std::vector<Rule> rules = fixed_rules();
  if (const auto error = check_path_template(path_template)) {
    require(error->offset <= path_template.size() && !error->message.empty());
  } else {
    Rule& rule = rules.emplace_back();
    rule.match.path = path_template;
    for (const std::string& name : path_template_variables(path_template)) {
      if (rule.key.size() < max_dimensions) rule.key.push_back({Kind::path_variable, 32, 64, name});
    }
  }
  check_plain(rules,
              method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\nX-Api-Key: " + value + "\r\n\r\n");
  check_plain(rules, target);
  const Classifier classifier(rules);
  const Header headers[] = {{"X-Api-Key", value}};
  Request request;
  request.method = method;
  request.host = host;
  request.target = target;
  request.headers = headers;
  Classifier::Scratch scratch;
  classifier.match(request, scratch);
  for (std::size_t i = 0; i < scratch.rule_count; ++i) {
    KeyBytes key;
    classifier.make_key(scratch.rules[i], request, scratch, key);
    const std::string name = key_name("r", key.bytes());
    require(name.find("%?") == std::string::npos);
    // A path that was matched has a segment for every variable.
    if (scratch.rules[i] == 4) require((name + "|").find("|-|") == std::string::npos);
  }
  return 0;
}
