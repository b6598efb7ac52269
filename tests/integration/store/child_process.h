// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Programs that a test starts, and a folder for their files. Both end with the test, also with one that
/// crashes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace weir {

/// A folder of its own under the system's temporary one, removed with its owner.
class TestFolder {
 public:
  /// @param purpose  part of its name
  explicit TestFolder(const std::string& purpose);
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A program, ended by its process id. To be started by a thread that lives as long as the program is to: the
/// kernel ends it with that thread.
class ChildProcess {
 public:
  ChildProcess() = default;
  /// @param words   the program, found by PATH, and its arguments
  /// @param output  file that takes what it says; empty: nobody does
  explicit ChildProcess(std::vector<std::string> words, const std::filesystem::path& output = {});
  ~ChildProcess() { kill(); }
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  /// Whether it runs, or is stopped by a signal.
  bool running();
  void signal(int number) const;
  /// SIGKILL, and waits for the end.
  void kill();
  /// Waits for its own end. @return its exit status; -1 when a signal ended it
  int wait();

 private:
  pid_t process_ = -1;
};

}  // namespace weir
