// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Pairs of ports between which a loop forwards, and the frames that come out of them.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "filter/queue_plan.h"
#include "filter/wiring.h"
#include "frame_memory.h"

namespace weir::bench {

/// What the two ports of a source have seen, by their own count.
struct PortFigures {
  std::uint64_t received = 0;
  std::uint64_t transmitted = 0;
};

/// Two ports, started, and the memory of their frames. One thread polls them; the rest is for the main
/// thread.
class FrameSource {
 public:
  virtual ~FrameSource();
  FrameSource(const FrameSource&) = delete;
  FrameSource& operator=(const FrameSource&) = delete;

  const std::string& name() const noexcept { return name_; }
  const filter::QueueSet& set() const noexcept { return set_; }
  const filter::Wiring& wiring() const noexcept { return wiring_; }
  /// Mbufs there are.
  std::uint32_t mbufs() const noexcept { return memory_.size(); }
  PortFigures figures() const;

  /// From now on the frames carry this. @pre nobody polls
  virtual void fill(Content content) { memory_.fill(content); }
  /// Nobody polls any more. @return what does not add up of frames made and frames come back; empty when all
  /// does
  virtual std::string end() { return {}; }

 protected:
  FrameSource(std::string name, std::uint32_t mbufs);
  FrameMemory& memory() noexcept { return memory_; }
  /// Sets up two devices that exist, one queue each, and starts them. Throws when they will not.
  void start(std::uint16_t first, std::uint16_t second);
  /// Has an mbuf of the memory be a whole frame that comes from the first port: net_ring does not tell.
  void be_frame(rte_mbuf* mbuf) const noexcept;

 private:
  std::string name_;
  FrameMemory memory_;
  std::unique_ptr<rte_mempool, FreePool> answers_;  // what is written into these must not come in as frames
  filter::QueueSet set_;
  filter::Wiring wiring_;
};

/// Two net_null ports that hand out what their common pool holds, and give back to it what they are sent.
class NullSource : public FrameSource {
 public:
  NullSource(std::string name, std::uint32_t mbufs);
};

/// Two net_ring ports whose frames go round for ever: what leaves by one comes back by it. No frame is
/// allocated or freed, so no device can be faster: the ceiling.
class LoopSource : public FrameSource {
 public:
  /// @param frames  that go round, of both directions together
  LoopSource(std::string name, std::uint32_t frames);
  void fill(Content content) override;

 private:
  std::uint32_t frames_;
};

/// Two net_ring ports between which frames go one way: another thread puts them in at one end and takes them
/// out at the other.
class OneWaySource : public FrameSource {
 protected:
  /// @param room  frames, of the ring to the polling thread and of the ring from it
  OneWaySource(std::string name, std::uint32_t mbufs, std::uint32_t room_in, std::uint32_t room_out);

  rte_ring* in() const noexcept { return in_; }
  rte_ring* out() const noexcept { return out_; }

 private:
  rte_ring* in_;
  rte_ring* out_;
};

/// Frames that another core has just written, so many at once; they leave for that core again.
class FreshSource : public OneWaySource {
 public:
  /// @param frames   different ones
  /// @param helping  as many at once, a part of them
  FreshSource(std::string name, std::uint32_t frames, std::uint32_t helping);

  void fill(Content content) override;

  std::uint32_t helping() const noexcept { return helping_; }
  /// Writes a helping of frames, by the calling core.
  void prepare();
  /// Hands it to the polling thread at one stroke.
  void serve() noexcept;
  /// Frames of it that have left. Any thread.
  std::uint32_t arrived() const noexcept { return rte_ring_count(out()); }
  /// Frees what has left. @return how many
  std::uint32_t clear() noexcept;
  std::string end() override;

 private:
  std::uint32_t helping_;
  std::uint32_t next_ = 0;  // frame to be written
  std::vector<rte_mbuf*> prepared_;
  std::optional<FramePool> patterns_;
};

}  // namespace weir::bench
