// SPDX-License-Identifier: BSD-3-Clause
#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <system_error>

namespace weir::bench {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// @param output  what the program's standard output becomes
pid_t start(const std::vector<std::string>& words, int output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t id = fork();
  if (id < 0) fail("fork");
  if (id > 0) return id;
  // Only what is safe after fork() in a program that may have threads.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(output, STDOUT_FILENO);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

Duration to_duration(const timespec& time) {
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

Duration to_duration(const timeval& time) {
  return std::chrono::seconds{time.tv_sec} + std::chrono::microseconds{time.tv_usec};
}

Duration read_clock(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return to_duration(time);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& words) {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) fail("/dev/null");
  id_ = start(words, nowhere);
  close(nowhere);
}

ChildProcess::~ChildProcess() {
  if (id_ < 0) return;
  kill(id_, SIGTERM);
  waitpid(id_, nullptr, 0);
}

bool ChildProcess::running() noexcept {
  if (id_ >= 0 && waitpid(id_, nullptr, WNOHANG) == id_) id_ = -1;
  return id_ >= 0;
}

ProgramOutput run_program(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
  const pid_t id = start(words, ends[1]);
  close(ends[1]);
  ProgramOutput output;
  std::array<char, 4096> piece;
  for (ssize_t size = 0; (size = read(ends[0], piece.data(), piece.size())) > 0;)
    output.text.append(piece.data(), static_cast<std::size_t>(size));
  close(ends[0]);
  int status = 0;
  rusage usage{};
  if (wait4(id, &status, 0, &usage) != id) fail("wait4");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error(words[0] + " did not end well (is it installed?): " + output.text);
  output.cpu = to_duration(usage.ru_utime) + to_duration(usage.ru_stime);
  return output;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "weir-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) fail(name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Duration thread_cpu() noexcept { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
Duration process_cpu() noexcept { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace weir::bench
