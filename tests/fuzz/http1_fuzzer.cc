// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a TCP payload: all requests in it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "weir/packet.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir;
  const std::string_view payload(reinterpret_cast<const char*>(data), size);
  const auto inside = [&](std::string_view part) {
    return part.empty() ||
           (part.data() >= payload.data() && part.data() + part.size() <= payload.data() + payload.size());
  };
  HeaderSelection chosen;
  for (const auto name : {"host", "x-api-key", "content-length", "x"}) chosen.add(name);
  HttpRequests requests(payload, chosen);
  ParsedRequest parsed;
  std::size_t found = 0;
  bool complete = true;
  while (requests.next(parsed)) {
    const Request& request = parsed.request;
    require(complete);
    complete = parsed.complete;
    require(!request.method.empty() && inside(request.method));
    require(!request.target.empty() && inside(request.target));
    require(inside(request.host));
    require(request.protocol == "http/1.0" || request.protocol == "http/1.1");
    require(request.headers.size() <= chosen.size());
    for (const Header& header : request.headers)
      require(!header.name.empty() && inside(header.name) && inside(header.value));
    // The shortest request is "X / HTTP/1.0\n\n".
    require(++found * 14 <= size + 14);
  }
  require(!requests.next(parsed));
  return 0;
}
