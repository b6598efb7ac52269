// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// One node: the rooms put together behind weir/throttle.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/fair_mutex.h"
#include "classify/classifier.h"
#include "control/controller.h"
#include "control/controller_thread.h"
#include "dataplane/worker_core.h"
#include "engine/engine.h"
#include "node/rule_plan.h"
#include "shared/grant_table.h"
#include "shared/publication.h"
#include "shared/quiescence.h"
#include "shared/span_table.h"
#include "store/store.h"
#include "weir/throttle.h"

namespace weir {

/// Thread rules as in weir/throttle.h.
class NodeCore {
 public:
  /// @param most_told  ControllerParts::most_told
  /// @pre `config` has passed check_config()
  NodeCore(Config config, const ThrottleOptions& options, std::unique_ptr<Store> store,
           std::size_t most_told = default_most_told);
  ~NodeCore();

  Worker& worker(unsigned index) noexcept { return workers_[index]; }
  const Config& config() const noexcept { return config_; }
  const Classifier& classifier() const noexcept { return classifier_; }

  void start();
  bool stop(Duration patience);
  bool stop(Instant now, Duration patience);
  /// The same without the thread, which has ended or never was.
  bool finish(Instant now, Duration patience);
  Instant advance(Instant now);
  /// A moment of the node's own clocks by the time that spans go by, as known at the last advance().
  Instant time(Instant own) const;

  Figures figures() const;
  std::vector<KeyFigures> top(std::size_t count) const;
  std::size_t memory() const;
  /// Keys that workers hold and tell of by their hash alone.
  std::uint32_t learned() const;

 private:
  void end_thread();
  void wait_for_first_answer(Duration patience);

  const Config config_;
  const std::function<void(std::string_view)> log_;
  Classifier classifier_;
  RulePlan plan_;
  Quiescence quiescence_;
  PublicationSlot publication_;
  std::vector<SpanTable> tables_;
  std::vector<CorrectionLog> corrections_;
  std::vector<std::unique_ptr<GrantTable>> grants_;
  Engine engine_;
  std::unique_ptr<Store> store_;
  Controller controller_;
  std::vector<std::unique_ptr<WorkerCore>> cores_;
  std::vector<Worker> workers_;
  // Engine, store and controller: the control plane may lock. Fair: a controller that is always late shall
  // not keep out who asks for figures.
  mutable FairMutex control_mutex_;
  MonotonicTime advanced_{};  // under control_mutex_: the latest moment advance() was given
  std::unique_ptr<ControllerThread> thread_;
};

}  // namespace weir
