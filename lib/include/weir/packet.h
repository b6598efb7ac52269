// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// From the bytes of an Ethernet frame to its layers, and from a TCP payload to HTTP/1.x requests. Every
/// length is checked against the bytes that are there: a lying header yields a `malformed` frame, never a
/// read beyond it. All functions are pure and may be called by any thread at any time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "weir/export.h"
#include "weir/request.h"
#include "weir/rule.h"

namespace weir {

/// What a frame turned out to be.
enum class FrameKind : std::uint8_t {
  tcp,              ///< a whole TCP segment (or the first fragment is not; see fragment)
  fragment,         ///< a piece of a fragmented IP packet, the first one included: ports may be missing
  other_transport,  ///< IP, but not TCP
  not_ip,           ///< ARP and the like
  malformed,        ///< a length or version contradicts the bytes
};

/// TCP flag bits as on the wire.
enum TcpFlag : std::uint8_t { tcp_fin = 1, tcp_syn = 2, tcp_rst = 4, tcp_psh = 8, tcp_ack = 16 };

/// Whether a server takes the payload of a segment with these flags. TCP drops what neither acknowledges nor
/// opens, and what resets: a request in such a segment is answered by nobody, and must not use up the limit
/// of whoever it says it is from.
constexpr bool can_carry_request(std::uint8_t tcp_flags) noexcept {
  return (tcp_flags & (tcp_ack | tcp_syn)) != 0 && (tcp_flags & tcp_rst) == 0;
}

/// The layers of one frame. Offsets count from the frame's first byte. Members below `kind` are filled as far
/// as the frame got; TCP members only for FrameKind::tcp.
struct Frame {
  FrameKind kind = FrameKind::malformed;
  std::uint8_t vlan_tags = 0;  ///< 802.1Q/802.1ad tags seen, at most 2
  std::uint8_t tcp_flags = 0;
  std::uint16_t l3_offset = 0;       ///< IP header; also the length of the link header with its tags
  std::uint16_t l4_offset = 0;       ///< TCP header: after IPv4 options or IPv6 extension headers
  std::uint16_t payload_offset = 0;  ///< after TCP options
  std::uint32_t payload_length = 0;  ///< by the IP header, Ethernet padding excluded; never beyond the frame
  std::uint32_t sequence = 0;        ///< host byte order
  std::uint32_t acknowledgment = 0;  ///< host byte order
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

/// Parses one frame in flat memory (see weir/mbuf.h for mbufs).
WEIR_API Frame parse_frame(std::span<const std::byte> bytes) noexcept;

/// Where the payload of a plain frame lies.
struct PlainPayload {
  std::uint32_t offset = 0;  ///< from the frame's first byte; 0: the frame is not plain
  std::uint32_t length = 0;
};

/// What nearly every frame is: TCP in a whole IPv4 packet without options and without VLAN tags. Looks at
/// the first 47 bytes alone, and is small enough for a place in a loop over many frames.
/// @return the payload, where parse_frame() finds it; nothing for every other frame, the malformed included
inline PlainPayload plain_payload(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t ip = 14;
  constexpr std::size_t ip_header = 20;
  constexpr std::size_t tcp = ip + ip_header;
  constexpr std::uint32_t tcp_header = 20;
  // Words as they lie in the frame, since constants are turned round for nothing.
  constexpr auto in_frame_order = [](std::uint32_t word) {
    return std::endian::native == std::endian::little ? __builtin_bswap32(word) : word;
  };
  const auto word_at = [&](std::size_t at) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return word;
  };
  if (bytes.size() < tcp + tcp_header) return {};
  // The type, the version and the header's length.
  if ((word_at(ip - 2) & in_frame_order(0xffffff00)) != in_frame_order(0x08004500)) return {};
  // What tells a fragment, the time to live left out, and the protocol.
  if ((word_at(ip + 6) & in_frame_order(0x3fff00ff)) != in_frame_order(0x00000006)) return {};
  const auto total =
      std::to_integer<std::uint32_t>(bytes[ip + 2]) << 8 | std::to_integer<std::uint32_t>(bytes[ip + 3]);
  const auto header = std::to_integer<std::uint32_t>(bytes[tcp + 12]) >> 4 << 2;
  const auto length = static_cast<std::uint32_t>(total - ip_header - header);
  constexpr std::uint32_t negative = 0x80000000;
  // Options, or a payload, of less than nothing.
  if (total > bytes.size() - ip || ((length | (header - tcp_header)) & negative) != 0) return {};
  return {static_cast<std::uint32_t>(tcp + header), length};
}

/// The TCP flags of a frame of which plain_payload() has found the payload. @param bytes  as given to it
inline std::uint8_t plain_tcp_flags(std::span<const std::byte> bytes) noexcept {
  return std::to_integer<std::uint8_t>(bytes[47]);
}

/// A frame of which plain_payload() has found the payload. View: nothing here owns bytes.
struct PlainFrame {
  const std::byte* bytes = nullptr;
  PlainPayload payload;  ///< offset 0: the frame is not plain
};

/// How requests are searched: byte by byte, or many bytes at once. All find the same, byte for byte.
enum class InstructionSet : std::uint8_t {
  portable,  ///< on every machine; what the others are held against
  sse2,      ///< every x86-64
  avx2,      ///< with BMI1, BMI2, LZCNT and POPCNT
  avx512,    ///< AVX-512 F, BW, CD, DQ, VL and VBMI2, and all of avx2
};

/// Whether this build and this machine have an instruction set. Any thread.
WEIR_API bool has_instruction_set(InstructionSet set) noexcept;
/// The best one there is. Any thread.
WEIR_API InstructionSet best_instruction_set() noexcept;

struct Scans;      // the searches of one instruction set
struct FoundHead;  // what they find

/// The names of the header fields that a search looks for, laid out for it: filled by HeaderSelection, read
/// by the searches, of no use to others.
struct SoughtFields {
  static constexpr std::size_t max_name = 64;
  /// Of which the searches compare a few at once.
  static constexpr std::size_t max_fields = max_chosen_headers + 4;
  static_assert(max_fields % 4 == 0);

  /// Eight bytes as one word in memory's own order: text is equal without regard to case when
  /// ((text | fold) & care) == want.
  struct Word {
    std::uint64_t want = 0;
    std::uint64_t fold = 0;  ///< the bit that makes a letter lower case; nothing where the name has no letter
    std::uint64_t care = 0;  ///< nothing in the bytes behind the colon
    bool operator==(const Word&) const = default;
  };
  enum Role : std::uint8_t { is_host = 1, is_chosen = 2, is_content_length = 4, is_transfer_encoding = 8 };
  struct Field {
    /// Of a name of eight bytes or more the eight that end with its colon; else it equals everything.
    Word last;
    std::array<Word, max_name / 8> between{};  ///< the words at the bytes 8, 16 and so on before these
    /// As lines nearly always begin with it: the name, its colon, a space and a character, the least of those
    /// that can begin a value; as much of it as there is room for.
    std::array<char, max_name> front{};
    std::uint8_t between_count = 0;
    std::uint8_t length = 0;
    std::uint8_t roles = 0;
    std::uint8_t chosen = 0;  ///< index in the selection, of is_chosen
  };

  /// The first eight bytes of each name with its colon, as Words in three parts.
  std::array<std::uint64_t, max_fields> want = equal_nothing();
  std::array<std::uint64_t, max_fields> fold{};
  std::array<std::uint64_t, max_fields> care{};
  std::array<Field, max_fields> fields{};
  std::uint8_t field_count = 0;

 private:
  /// For what stands behind the last field: bytes without care are none of these.
  static constexpr std::array<std::uint64_t, max_fields> equal_nothing() noexcept {
    std::array<std::uint64_t, max_fields> want{};
    want.fill(~std::uint64_t{0});
    return want;
  }
};

/// The header names worth extracting: what the rules name. At most max_chosen_headers.
class WEIR_API HeaderSelection {
 public:
  HeaderSelection() noexcept : HeaderSelection(best_instruction_set()) {}
  /// @param set  what to search with; where the machine has it not, the portable one is taken
  explicit HeaderSelection(InstructionSet set) noexcept;
  /// Adds a name (lower case); false when full. Adding a name twice is fine.
  bool add(std::string_view lower_case_name) noexcept;
  /// Whether the requests' hosts are wanted; they are, unless this says otherwise. Where nobody looks at them
  /// they are left empty, which saves the search for the field.
  void want_host(bool wanted) noexcept;
  bool wants_host() const noexcept { return host_wanted_; }
  std::size_t size() const noexcept { return size_; }
  std::string_view operator[](std::size_t index) const noexcept {
    return {names_[index].data(), lengths_[index]};
  }

 private:
  friend class HttpRequests;
  friend class PlainClassifier;
  static constexpr std::size_t max_name = SoughtFields::max_name;
  std::array<std::array<char, max_name>, max_chosen_headers> names_{};
  std::array<std::uint8_t, max_chosen_headers> lengths_{};
  std::uint8_t size_ = 0;
  bool host_wanted_ = true;
  const Scans* scans_;
  SoughtFields sought_;
};

/// What a byte at the front of a payload can be to a request.
enum class RequestByte : std::uint8_t {
  none,      ///< no request begins so
  method,    ///< a character of a token (RFC 9110 §5.6.2): of a method
  line_end,  ///< of an empty line before the request line, which servers skip
};

/// By byte value.
inline constexpr std::array<RequestByte, 256> request_bytes = [] {
  std::array<RequestByte, 256> table{};
  for (unsigned char i = '0'; i <= '9'; ++i) table[i] = RequestByte::method;
  for (unsigned char i = 'a'; i <= 'z'; ++i) table[i] = RequestByte::method;
  for (unsigned char i = 'A'; i <= 'Z'; ++i) table[i] = RequestByte::method;
  for (const char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'})
    table[static_cast<unsigned char>(c)] = RequestByte::method;
  table['\r'] = table['\n'] = RequestByte::line_end;
  return table;
}();

constexpr RequestByte request_byte(char c) noexcept { return request_bytes[static_cast<unsigned char>(c)]; }

/// Whether a payload that begins so can have a request at its front. Most payloads that are no request are
/// seen through by this.
constexpr bool can_begin_request(char first) noexcept { return request_byte(first) != RequestByte::none; }

/// A request found in a payload, with room for its chosen headers. `request.headers` points into `headers`:
/// do not copy or move one and go on using the copy.
struct ParsedRequest {
  ParsedRequest() = default;
  ParsedRequest(const ParsedRequest&) = delete;
  ParsedRequest& operator=(const ParsedRequest&) = delete;

  Request request;
  std::array<Header, max_chosen_headers> headers;
  bool complete = false;  ///< the header section ended within the payload
};

/// Walks the HTTP/1.x requests at the start of a TCP segment's payload: the first, and those pipelined behind
/// it in the same segment, also behind bodies that end there, of a given length or in chunks. Whatever a
/// usual server takes for a request is one, HTTP/0.9's too, and of one whose target names another host than
/// its Host field (but CONNECT's) there are two, first with the target's, if hosts are wanted. Where nobody
/// can tell where a request ends, from there on every line that ends as a request line does is one, wherever
/// in the line it begins, with the header fields behind it; these requests come in the reverse of their
/// order. Where its method ends with known ones (PROPPATCH with PATCH), it is one of each, the longest first;
/// where it ends with none, the method is all of what one may be made of. So it is where a body's length is
/// not plainly told, behind CONNECT, and where something else follows. A payload that does not begin with a
/// request line has none. A request line without its end has none either; cut-off headers still yield the
/// request, not `complete`: of a chosen header in whose line the payload ends there is the value as far as it
/// goes, of the host nothing.
class WEIR_API HttpRequests {
 public:
  HttpRequests(std::string_view payload, const HeaderSelection& selection) noexcept
      : rest_(payload), selection_(&selection) {}
  /// Fills protocol, method, target, host and headers of `out.request` (see HeaderSelection::want_host), and
  /// what is known of the target's shape; the rest of it is left as it is.
  /// @return false when there is no further request.
  bool next(ParsedRequest& out) noexcept { return next(out.request, out.headers, out.complete); }
  /// The same for who keeps requests side by side.
  /// @param headers  room for as many as the selection names; `out.headers` points into it
  /// @param complete  whether the header section ended within the payload
  bool next(Request& out, std::span<Header> headers, bool& complete) noexcept {
    return !rest_.empty() && find(out, headers, complete);
  }
  /// False: next() would find nothing; it need not be asked.
  bool has_more() const noexcept { return !rest_.empty(); }

 private:
  class Body;
  bool find(Request& out, std::span<Header> headers, bool& complete) noexcept;
  bool find_parsing(std::string_view rest, Request& out, std::span<Header> headers, bool& complete) noexcept;
  bool note_next(std::string_view payload, const FoundHead& head) noexcept;
  void go_on_behind(std::string_view method, std::string_view protocol, const Body& body,
                    std::string_view behind_head) noexcept;
  void get_lost(std::string_view rest) noexcept;
  bool find_behind_other(std::string_view rest, Request& out, std::span<Header> headers,
                         bool& complete) noexcept;
  bool find_lost(Request& out, std::span<Header> headers, bool& complete) noexcept;
  bool set_lost_fields(Request& out, std::span<Header> headers) noexcept;
  bool set_host_by_target(Request& request) noexcept;
  void note_lost_field(std::string_view line, std::string_view behind) noexcept;
  bool parse(std::string_view& rest, Request& out, std::span<Header> headers, bool& complete,
             Body& body) const noexcept;

  enum class Place : std::uint8_t {
    first,           // in the payload
    behind_another,  // at its end
    lost,            // nobody can tell where a request ends
  };
  /// A header field that was seen where nobody can tell where a request ends. Its name is as long as in the
  /// selection.
  struct LostField {
    const char* name;
    const char* value;
    std::size_t size;  // of the value
  };
  static constexpr std::size_t lost_host = max_chosen_headers;

  std::string_view rest_;  // when lost, up to a line's end
  const HeaderSelection* selection_;
  Place place_ = Place::first;
  bool host_by_field_ = false;  // the request that rest_ begins with has come by its target's host
  // Of what follows nothing means anything before place_ is lost.
  std::size_t lost_below_;                                     // methods sought in its last line are shorter
  bool lost_complete_;                                         // an empty line stands behind rest_
  std::uint32_t found_lost_;                                   // bit i: lost_fields_[i] does before that
  const char* lost_end_;                                       // of the last line
  std::array<LostField, max_chosen_headers + 1> lost_fields_;  // by index in the selection, and the host
};

/// Copies a frame's addresses and ports into a request.
inline void set_endpoints(Request& request, const Frame& frame) noexcept {
  request.source = frame.source;
  request.destination = frame.destination;
  request.source_port = frame.source_port;
  request.destination_port = frame.destination_port;
}

/// The same for a frame of which plain_payload() finds the payload. @param bytes  as given to it
inline void set_plain_endpoints(Request& request, std::span<const std::byte> bytes) noexcept {
  const auto set_address = [&](IpAddress& address, std::size_t at) {
    address = {};
    std::memcpy(address.bytes.data(), bytes.data() + at, 4);
    address.family = IpAddress::Family::v4;
  };
  const auto port_at = [&](std::size_t at) {
    return static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[at]) << 8 |
                                      std::to_integer<unsigned>(bytes[at + 1]));
  };
  set_address(request.source, 26);
  set_address(request.destination, 30);
  request.source_port = port_at(34);
  request.destination_port = port_at(36);
}

/// The TCP payload of a frame; `bytes` as given to parse_frame.
inline std::string_view tcp_payload(std::span<const std::byte> bytes, const Frame& frame) noexcept {
  if (frame.kind != FrameKind::tcp) return {};
  return {reinterpret_cast<const char*>(bytes.data()) + frame.payload_offset, frame.payload_length};
}

/// The same where requests are looked for: nothing where no server takes it, see can_carry_request().
inline std::string_view request_payload(std::span<const std::byte> bytes, const Frame& frame) noexcept {
  return can_carry_request(frame.tcp_flags) ? tcp_payload(bytes, frame) : std::string_view{};
}

}  // namespace weir
