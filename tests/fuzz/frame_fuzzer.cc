// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a frame, and what follows from it: as a worker does with what comes off the wire.
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/require.h"
#include "weir/packet.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir;
  const auto bytes = std::as_bytes(std::span(data, size));
  const Frame frame = parse_frame(bytes);
  require(frame.vlan_tags <= 2);
  if (frame.kind != FrameKind::tcp) {
    require(tcp_payload(bytes, frame).empty());
    return 0;
  }
  require(frame.l3_offset >= 14 && frame.l4_offset >= frame.l3_offset + 20);
  require(frame.payload_offset >= frame.l4_offset + 20);
  require(std::size_t{frame.payload_offset} + frame.payload_length <= size);
  require(frame.source.family != IpAddress::Family::none && frame.source.family == frame.destination.family);

  HeaderSelection chosen;
  chosen.add("x-api-key");
  HttpRequests requests(tcp_payload(bytes, frame), chosen);
  ParsedRequest parsed;
  while (requests.next(parsed)) require(!parsed.request.method.empty());
  return 0;
}
