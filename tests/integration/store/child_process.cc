// SPDX-License-Identifier: BSD-3-Clause
#include "child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace weir {

TestFolder::TestFolder(const std::string& purpose) {
  std::string name = (std::filesystem::temp_directory_path() / ("weir-" + purpose + "-XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot make a folder like " << name;
  path_ = name;
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ChildProcess::ChildProcess(std::vector<std::string> words, const std::filesystem::path& output) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const char* file = output.empty() ? "/dev/null" : output.c_str();

  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    // Only what is allowed between fork and exec in a program with threads.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int out = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  if (process_ < 0) ADD_FAILURE() << "cannot start " << words[0] << ": no process to be had";
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : process_(std::exchange(other.process_, -1)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    kill();
    process_ = std::exchange(other.process_, -1);
  }
  return *this;
}

bool ChildProcess::running() {
  if (process_ > 0 && waitpid(process_, nullptr, WNOHANG) == process_) process_ = -1;
  return process_ > 0;
}

void ChildProcess::signal(int number) const {
  if (process_ > 0) ::kill(process_, number);
}

void ChildProcess::kill() {
  signal(SIGKILL);
  wait();
}

int ChildProcess::wait() {
  if (process_ <= 0) return -1;
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace weir
