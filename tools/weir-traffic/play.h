// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The play itself: clients that open connections and ask, servers that answer, and a stage manager who knows
/// every frame that went in and so can tell what happened to it on the way. No clock and no device of its
/// own.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "profile.h"
#include "wire.h"

namespace weir::traffic {

/// Time since the play began.
using Moment = std::chrono::nanoseconds;

enum class Side : std::uint8_t { clients, servers };

/// What became of a crowd's requests. `sent` is the sum of the last four once the play is over.
struct CrowdFigures {
  std::uint64_t sent = 0;
  std::uint64_t arrived = 0;     ///< seen by the server
  std::uint64_t answered = 0;    ///< the server's answer came back
  std::uint64_t limited = 0;     ///< a 429 came back
  std::uint64_t reset = 0;       ///< a reset came back
  std::uint64_t unanswered = 0;  ///< nothing came back
};

/// What became of everything, packet by packet.
struct PacketFigures {
  std::uint64_t sent = 0;       ///< packets without a request, both ways
  std::uint64_t arrived = 0;    ///< of these, at the other side with every byte as it was
  std::uint64_t lost = 0;       ///< of these, never seen again
  std::uint64_t reordered = 0;  ///< packets that overtook an earlier one of their connection
  std::uint64_t altered = 0;    ///< packets nobody sent, and no 429 or reset either
  std::uint64_t bad_replies =
      0;  ///< what refused made mistakes: numbers, checksums, header fields, a client left waiting
  std::uint64_t server_resets = 0;  ///< resets that told a server to forget a refused request
};

class Play {
 public:
  /// Takes a frame out of the play onto the wire.
  using Send = std::function<void(Side from, const Frame& frame)>;

  /// @param rate  multiplies the rate of every crowd; > 0
  Play(std::vector<Crowd> cast, double rate, std::uint64_t seed, Send send);

  /// Opens the connections that are due by `now`.
  void arrive(Moment now);
  /// A frame has come off the wire at a side.
  void receive(Side at, std::span<const std::uint8_t> frame, Moment now);
  /// Gives up on connections that have been silent for `patience`.
  void give_up(Moment now);
  /// No connection is open and no packet is under way.
  bool quiet() const { return open_.empty(); }

  const std::vector<Crowd>& cast() const { return cast_; }
  const CrowdFigures& figures(std::size_t crowd) const { return figures_[crowd]; }
  const PacketFigures& packets() const { return packets_; }

  static constexpr Moment patience = std::chrono::seconds(2);

 private:
  /// What a packet may be met with on its way.
  enum class Fate : std::uint8_t {
    untouched,  ///< nobody has a reason to touch it
    request,    ///< may be refused
    closing,    ///< ends a refused connection: whoever refused may answer it
  };
  struct Sent {
    std::uint64_t fingerprint = 0;
    std::uint32_t sequence = 0;
    Fate fate = Fate::untouched;
  };
  struct Connection {
    std::size_t crowd = 0;
    Packet template_out;  ///< addresses and ports as the client sends
    std::uint32_t client_next = 0;
    std::uint32_t server_next = 0;
    unsigned requests_left = 0;
    bool waiting = false;  ///< a request is out
    bool refused = false;  ///< the server was told to forget it
    bool closing = false;  ///< a 429 has come, the client has said good-bye and waits for an answer to that
    bool done = false;
    Moment last{};
    std::deque<Sent> to_servers;
    std::deque<Sent> to_clients;
  };
  using Key = std::tuple<Kind, std::uint32_t, std::uint16_t>;
  using Open = std::map<Key, Connection>;

  void open(std::size_t crowd, Moment now);
  void send(Connection& connection, Side from, Packet packet, Fate fate = Fate::untouched);
  void ask(Connection& connection);
  void leave(Connection& connection, Fate fate);
  void serve(Connection& connection, const Packet& packet, std::span<const std::uint8_t> frame, Fate fate);
  void listen(Connection& connection, const Packet& packet);
  void injected(Connection& connection, Side at, const Packet& packet, bool checksums_good);
  void close(Open::iterator at);

  std::vector<Crowd> cast_;
  std::vector<CrowdFigures> figures_;
  std::vector<Dice> dice_;       ///< one per crowd, so that answers' timing changes no later request
  std::vector<double> next_at_;  ///< per crowd: seconds
  std::vector<std::uint32_t> opened_;
  PacketFigures packets_;
  Open open_;
  double rate_;
  std::uint16_t identification_ = 0;
  Send send_;
};

}  // namespace weir::traffic
