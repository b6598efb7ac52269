// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Programs that a benchmark starts, and what processor time things have cost.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "weir/time.h"

namespace weir::bench {

/// A program in the background, its output thrown away. It is asked to end (SIGTERM) with this object, and
/// killed with this process.
class ChildProcess {
 public:
  /// @param words  the program, looked for in PATH, and its arguments. Throws when there can be no process
  explicit ChildProcess(const std::vector<std::string>& words);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const noexcept { return id_; }
  bool running() noexcept;

 private:
  pid_t id_ = -1;  // -1: has ended
};

/// What a program that has run to its end leaves.
struct ProgramOutput {
  std::string text;  ///< of its standard output
  Duration cpu{};    ///< user and system
};

/// Runs a program and waits for it. Throws when it does not end well.
ProgramOutput run_program(const std::vector<std::string>& words);

/// A folder in the system's place for such; goes with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Processor time that the calling thread, or this process, has had.
Duration thread_cpu() noexcept;
Duration process_cpu() noexcept;

}  // namespace weir::bench
