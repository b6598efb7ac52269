// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a frame, and what follows from it: as a worker does with what comes off the wire.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "filter/burst_look.h"
#include "fuzz/require.h"
#include "weir/packet.h"

namespace {

/// Whoever looks at it says of it what plain_payload() says.
void require_looks_to_agree(std::span<const std::byte> bytes) {
  using namespace weir;
  bytes = bytes.first(std::min<std::size_t>(bytes.size(), std::numeric_limits<std::uint16_t>::max()));
  rte_mbuf mbuf{};
  mbuf.buf_addr = const_cast<std::byte*>(bytes.data());
  mbuf.data_len = static_cast<std::uint16_t>(bytes.size());
  mbuf.nb_segs = 1;
  rte_mbuf* const burst[]{&mbuf};
  const PlainPayload payload = plain_payload(bytes);
  const bool opening = payload.length != 0 && can_begin_request(static_cast<char>(bytes[payload.offset]));
  for (const InstructionSet set : {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512}) {
    filter::BurstLook look;
    filter::burst_look_of(set)(burst, look);
    require(look.odd == (payload.offset == 0 ? 1 : 0) && look.opening == (opening ? 1 : 0));
    if (payload.length != 0)
      require(look.payloads[0].offset == payload.offset && look.payloads[0].length == payload.length);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir;
  const auto bytes = std::as_bytes(std::span(data, size));
  require_looks_to_agree(bytes);
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
