// SPDX-License-Identifier: BSD-3-Clause
#include "play.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace weir::traffic {
namespace {

using namespace std::string_view_literals;

constexpr std::uint32_t server_address = 192u << 24 | 0u << 16 | 2u << 8 | 80u;
constexpr std::string_view answer_text =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n";
constexpr std::string_view client_hello = "\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03 not a request"sv;
constexpr std::string_view server_hello = "\x16\x03\x03\x00\x2f\x02\x00\x00\x2b\x03\x03 nor an answer"sv;

Kind kind_of(Speech speech) {
  switch (speech) {
    case Speech::http:
    case Speech::tls:
      return Kind::tcp;
    case Speech::datagrams:
      return Kind::udp;
    case Speech::echo:
      return Kind::icmp;
    case Speech::arp:
      break;
  }
  return Kind::arp;
}

std::uint16_t port_of(Speech speech) {
  switch (speech) {
    case Speech::http:
      return 80;
    case Speech::tls:
      return 443;
    case Speech::datagrams:
      return 53;
    case Speech::echo:
    case Speech::arp:
      break;
  }
  return 0;
}

bool good_refusal(std::string_view text) {
  const std::size_t end = text.find("\r\n\r\n");
  if (end == std::string_view::npos) return false;
  std::string head(text.substr(0, end + 2));
  std::transform(head.begin(), head.end(), head.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return head.find("\r\nretry-after: ") != std::string::npos &&
         head.find("\r\nratelimit") != std::string::npos;
}

}  // namespace

Play::Play(std::vector<Crowd> cast, double rate, std::uint64_t seed, Send send)
    : cast_(std::move(cast)),
      figures_(cast_.size()),
      opened_(cast_.size()),
      rate_(rate),
      send_(std::move(send)) {
  for (std::size_t i = 0; i < cast_.size(); ++i) {
    dice_.emplace_back(seed * 1000003 + i);
    next_at_.push_back(dice_.back().next_arrival(cast_[i].rate * rate_));
  }
}

void Play::arrive(Moment now) {
  const double seconds = std::chrono::duration<double>(now).count();
  for (std::size_t i = 0; i < cast_.size(); ++i) {
    while (next_at_[i] <= seconds) {
      open(i, now);
      next_at_[i] += dice_[i].next_arrival(cast_[i].rate * rate_);
    }
  }
}

void Play::open(std::size_t crowd, Moment now) {
  const Crowd& who = cast_[crowd];
  Packet packet;
  packet.kind = kind_of(who.speech);
  packet.source = who.address + static_cast<std::uint32_t>(dice_[crowd].below(who.addresses));
  packet.destination = server_address;
  if (packet.kind != Kind::arp)
    packet.source_port = static_cast<std::uint16_t>(10000 + opened_[crowd]++ % 50000);
  packet.destination_port = port_of(who.speech);

  const auto [at, is_new] = open_.try_emplace(Key{packet.kind, packet.source, packet.source_port});
  if (!is_new) return;  // that conversation is still going on
  Connection& connection = at->second;
  connection.crowd = crowd;
  connection.template_out = packet;
  connection.last = now;
  if (packet.kind == Kind::tcp) {
    connection.requests_left = who.requests;
    connection.client_next = static_cast<std::uint32_t>(dice_[crowd].below(std::uint64_t{1} << 32));
    packet.flags = Flag::syn;
    packet.sequence = connection.client_next++;
    send(connection, Side::clients, packet);
  } else {
    packet.sequence = opened_[crowd] & 0xffff;
    packet.payload = packet.kind == Kind::arp ? std::string_view{} : "weir-traffic asks without a request";
    send(connection, Side::clients, packet);
  }
}

void Play::send(Connection& connection, Side from, Packet packet, Fate fate) {
  packet.from_clients = from == Side::clients;
  packet.identification = ++identification_;
  const Frame frame = build(packet);
  (from == Side::clients ? connection.to_servers : connection.to_clients)
      .push_back({fingerprint(frame), packet.sequence, fate});
  if (fate == Fate::untouched) ++packets_.sent;
  send_(from, frame);
}

void Play::ask(Connection& connection) {
  const Crowd& who = cast_[connection.crowd];
  const bool request = who.speech == Speech::http;
  const std::string text = request ? make_request(who, dice_[connection.crowd]) : std::string(client_hello);
  Packet packet = connection.template_out;
  packet.flags = Flag::psh | Flag::ack;
  packet.sequence = connection.client_next;
  packet.acknowledgment = connection.server_next;
  packet.payload = text;
  connection.client_next += static_cast<std::uint32_t>(text.size());
  connection.waiting = true;
  --connection.requests_left;
  if (request) ++figures_[connection.crowd].sent;
  send(connection, Side::clients, packet, request ? Fate::request : Fate::untouched);
}

void Play::leave(Connection& connection, Fate fate) {
  Packet packet = connection.template_out;
  packet.flags = Flag::fin | Flag::ack;
  packet.sequence = connection.client_next++;
  packet.acknowledgment = connection.server_next;
  send(connection, Side::clients, packet, fate);
}

void Play::receive(Side at, std::span<const std::uint8_t> frame, Moment now) {
  bool checksums_good = false;
  const std::optional<Packet> packet = read(frame, checksums_good);
  if (!packet) {
    ++packets_.altered;
    return;
  }
  const bool to_server = at == Side::servers;
  const std::uint32_t client = to_server ? packet->source : packet->destination;
  const std::uint16_t port =
      to_server || packet->kind == Kind::icmp ? packet->source_port : packet->destination_port;
  const auto found = open_.find(Key{packet->kind, client, port});
  if (found == open_.end()) {
    ++packets_.altered;
    return;
  }

  Connection& connection = found->second;
  connection.last = now;
  auto& under_way = to_server ? connection.to_servers : connection.to_clients;
  const std::uint64_t print = fingerprint(frame);
  const auto sent = std::find_if(under_way.begin(), under_way.end(),
                                 [print](const Sent& one) { return one.fingerprint == print; });
  if (sent == under_way.end()) {
    injected(connection, at, *packet, checksums_good);
  } else {
    if (sent != under_way.begin()) ++packets_.reordered;
    const Fate fate = sent->fate;
    under_way.erase(sent);
    if (fate == Fate::untouched) ++packets_.arrived;
    if (to_server)
      serve(connection, *packet, frame, fate);
    else
      listen(connection, *packet);
  }
  if (connection.done && connection.to_servers.empty() && connection.to_clients.empty()) open_.erase(found);
}

void Play::serve(Connection& connection, const Packet& packet, std::span<const std::uint8_t> frame,
                 Fate fate) {
  const bool request = fate == Fate::request;
  Packet answer;
  answer.kind = packet.kind;
  answer.source = packet.destination;
  answer.destination = packet.source;
  answer.source_port = packet.kind == Kind::icmp ? packet.source_port : packet.destination_port;
  answer.destination_port = packet.kind == Kind::icmp ? std::uint16_t{0} : packet.source_port;
  if (packet.kind != Kind::tcp) {
    answer.sequence = packet.sequence;
    answer.payload = packet.payload;
    send(connection, Side::servers, answer);
    return;
  }
  if (request) ++figures_[connection.crowd].arrived;
  if (connection.refused) {
    // The server has forgotten this connection.
    answer.flags = Flag::rst;
    answer.sequence = packet.acknowledgment;
    send(connection, Side::servers, answer, Fate::closing);
    return;
  }
  answer.flags = Flag::ack;
  answer.sequence = packet.acknowledgment;
  answer.acknowledgment = packet.sequence + static_cast<std::uint32_t>(packet.payload.size());
  if ((packet.flags & Flag::syn) != 0) {
    answer.flags |= Flag::syn;
    answer.sequence = static_cast<std::uint32_t>(fingerprint(frame));
    ++answer.acknowledgment;
  } else if ((packet.flags & Flag::fin) != 0) {
    answer.flags |= Flag::fin;
    ++answer.acknowledgment;
  } else if (!packet.payload.empty()) {
    answer.flags |= Flag::psh;
    answer.payload = request ? answer_text : server_hello;
  } else {
    return;  // a bare acknowledgment
  }
  send(connection, Side::servers, answer);
}

void Play::listen(Connection& connection, const Packet& packet) {
  if (packet.kind != Kind::tcp || (packet.flags & Flag::rst) != 0) {
    connection.done = true;
    return;
  }
  Packet acknowledge = connection.template_out;
  acknowledge.flags = Flag::ack;
  acknowledge.sequence = connection.client_next;
  if ((packet.flags & Flag::syn) != 0) {
    connection.server_next = packet.sequence + 1;
    acknowledge.acknowledgment = connection.server_next;
    send(connection, Side::clients, acknowledge);
    ask(connection);
  } else if ((packet.flags & Flag::fin) != 0) {
    connection.server_next = packet.sequence + 1;
    acknowledge.acknowledgment = connection.server_next;
    connection.done = true;
    send(connection, Side::clients, acknowledge);
  } else {
    connection.server_next = packet.sequence + static_cast<std::uint32_t>(packet.payload.size());
    connection.waiting = false;
    if (cast_[connection.crowd].speech == Speech::http) ++figures_[connection.crowd].answered;
    if (connection.requests_left > 0)
      ask(connection);
    else
      leave(connection, Fate::untouched);
  }
}

void Play::injected(Connection& connection, Side at, const Packet& packet, bool checksums_good) {
  CrowdFigures& figures = figures_[connection.crowd];
  const bool reset = packet.kind == Kind::tcp && (packet.flags & Flag::rst) != 0;
  if (at == Side::servers) {
    const auto request = std::find_if(connection.to_servers.begin(), connection.to_servers.end(),
                                      [](const Sent& one) { return one.fate == Fate::request; });
    if (!reset || request == connection.to_servers.end()) {
      ++packets_.altered;
      return;
    }
    if (!checksums_good || packet.sequence != request->sequence) ++packets_.bad_replies;
    ++packets_.server_resets;
    connection.refused = true;
    connection.to_servers.erase(request);
    return;
  }

  const bool fitting = checksums_good && packet.sequence == connection.server_next &&
                       (packet.flags & Flag::ack) != 0 && packet.acknowledgment == connection.client_next;
  if (connection.closing && packet.payload.empty() && (reset || packet.flags == Flag::ack)) {
    if (!fitting) ++packets_.bad_replies;
    connection.done = true;
    std::erase_if(connection.to_servers, [](const Sent& one) { return one.fate == Fate::closing; });
    return;
  }
  const bool refusal = packet.kind == Kind::tcp && packet.payload.starts_with("HTTP/1.1 429 ");
  if (!connection.waiting || !(reset || refusal)) {
    ++packets_.altered;
    return;
  }
  connection.waiting = false;
  if (reset) {
    connection.done = true;
    if (!fitting) ++packets_.bad_replies;
    ++figures.reset;
    return;
  }
  if (!fitting || !good_refusal(packet.payload)) ++packets_.bad_replies;
  ++figures.limited;
  connection.server_next +=
      static_cast<std::uint32_t>(packet.payload.size()) + ((packet.flags & Flag::fin) != 0);
  connection.closing = true;
  leave(connection, Fate::closing);
}

void Play::close(Open::iterator at) {
  Connection& connection = at->second;
  if (connection.waiting && cast_[connection.crowd].speech == Speech::http)
    ++figures_[connection.crowd].unanswered;
  if (connection.closing && !connection.done) ++packets_.bad_replies;
  const bool server_waits =
      std::ranges::any_of(connection.to_servers, [](const Sent& one) { return one.fate == Fate::request; });
  if (server_waits && !connection.waiting) ++packets_.bad_replies;
  for (const auto* under_way : {&connection.to_servers, &connection.to_clients})
    packets_.lost += static_cast<std::uint64_t>(std::count_if(
        under_way->begin(), under_way->end(), [](const Sent& one) { return one.fate == Fate::untouched; }));
  open_.erase(at);
}

void Play::give_up(Moment now) {
  for (auto at = open_.begin(); at != open_.end();) {
    const auto next = std::next(at);
    if (now - at->second.last > patience) close(at);
    at = next;
  }
}

}  // namespace weir::traffic
