// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The frames weir-filter makes itself: what a client and a server are told when a request is refused. The
/// filter has no TCP stack; everything follows from the request's own segment: its acknowledgment is taken
/// for the next byte the client expects, its sequence for the next byte the server expects. (Where TCP sends
/// a request again the server may have had it, and expects what comes behind.) Pure packet crafting on flat
/// memory, IPv4 and IPv6, VLAN tags kept, checksums computed. Any thread, but that a rule's text is one
/// thread's; no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "filter/refusal_text.h"
#include "weir/packet.h"

namespace weir::filter {

/// The largest frame any function below makes, in bytes, of what a configuration may have: an output span of
/// this size is always enough.
inline constexpr std::size_t max_crafted_frame = 1024;

/// A client's segment: the bytes of its frame and their layers.
/// @pre for everything below: frame.kind is FrameKind::tcp and `bytes` are those it was parsed from
struct Segment {
  std::span<const std::byte> bytes;
  const Frame& frame;
};

/// What a 429 says.
struct Refusal {
  RefusalText* text = nullptr;            ///< of the rule that refused; never null
  std::uint64_t retry_after_seconds = 1;  ///< at least 1
  bool head = false;                      ///< the method was HEAD: no body
};

/// The sequence number behind a segment: SYN and FIN count one each.
std::uint32_t sequence_end(const Frame& frame) noexcept;

/// RST|ACK to the client: closes its end of the connection.
/// These three return the length of the frame written to `out`, or 0 when it does not fit.
std::size_t craft_reset_to_client(const Segment& request, std::span<std::byte> out) noexcept;

/// RST to the server, in the client's name, at the request's sequence number: a server that has had the
/// request already expects a later one, and ignores it.
std::size_t craft_reset_to_server(const Segment& request, std::span<std::byte> out) noexcept;

/// A 429 and how much of the stream to the client it takes.
struct CraftedReply {
  std::size_t frame_length = 0;    ///< 0 when it does not fit
  std::size_t payload_length = 0;  ///< of the TCP segment; its FIN comes on top
};

/// The 429 response and the end of the stream (PSH|ACK|FIN) to the client, in the server's name. Where the
/// client uses TCP timestamps the frame has them too: some stacks drop segments without (RFC 7323, 3.2).
CraftedReply craft_reply_429(const Segment& request, const Refusal& refusal,
                             std::span<std::byte> out) noexcept;

/// A bare ACK to the client, in the server's name.
/// @param sequence        the server's next byte
/// @param acknowledgment  the client's next byte
std::size_t craft_acknowledgment(const Segment& segment, std::uint32_t sequence, std::uint32_t acknowledgment,
                                 std::span<std::byte> out) noexcept;

}  // namespace weir::filter
