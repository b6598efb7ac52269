// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a TCP payload: all requests in it, and the same ones with every instruction set.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "weir/packet.h"

namespace {

using namespace weir;

HeaderSelection selection(InstructionSet set) {
  HeaderSelection chosen(set);
  for (const auto name : {"host", "x-api-key", "content-length", "x"}) chosen.add(name);
  return chosen;
}

bool same(std::string_view a, std::string_view b) { return a == b && (a.empty() || a.data() == b.data()); }

bool same(const ParsedRequest& a, const ParsedRequest& b) {
  const Request& x = a.request;
  const Request& y = b.request;
  return same(x.method, y.method) && same(x.target, y.target) && same(x.host, y.host) &&
         x.protocol == y.protocol && a.complete == b.complete &&
         std::equal(x.headers.begin(), x.headers.end(), y.headers.begin(), y.headers.end(),
                    [](const Header& one, const Header& other) {
                      return same(one.name, other.name) && same(one.value, other.value);
                    });
}

void require_same(std::string_view payload, const HeaderSelection& portable, const HeaderSelection& vectors) {
  HttpRequests one(payload, portable);
  HttpRequests other(payload, vectors);
  ParsedRequest expected;
  ParsedRequest found;
  for (;;) {
    const bool there = one.next(expected);
    require(other.next(found) == there);
    if (!there) return;
    require(same(expected, found));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view payload(reinterpret_cast<const char*>(data), size);
  const auto inside = [&](std::string_view part) {
    return part.empty() ||
           (part.data() >= payload.data() && part.data() + part.size() <= payload.data() + payload.size());
  };
  static const HeaderSelection chosen = selection(InstructionSet::portable);
  for (const InstructionSet set : {InstructionSet::sse2, InstructionSet::avx2, InstructionSet::avx512}) {
    static const HeaderSelection of_set[] = {selection(InstructionSet::sse2), selection(InstructionSet::avx2),
                                             selection(InstructionSet::avx512)};
    if (has_instruction_set(set))
      require_same(payload, chosen, of_set[static_cast<int>(set) - static_cast<int>(InstructionSet::sse2)]);
  }
  HttpRequests requests(payload, chosen);
  ParsedRequest parsed;
  std::size_t found = 0;
  while (requests.next(parsed)) {
    const Request& request = parsed.request;
    require(!request.method.empty() && inside(request.method));
    require(!request.target.empty() && inside(request.target));
    require(inside(request.host));
    require(request.protocol == "http/0.9" || request.protocol == "http/1.0" ||
            request.protocol == "http/1.1");
    require(request.headers.size() <= chosen.size());
    for (const Header& header : request.headers)
      require(!header.name.empty() && inside(header.name) && inside(header.value));
    // The most are told where nobody can tell where a body ends: by "UNBIND /\n" two, and by "GET /\n" one.
    require(++found * 9 <= size * 2);
  }
  require(!requests.next(parsed));
  return 0;
}
