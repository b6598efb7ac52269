// SPDX-License-Identifier: BSD-3-Clause
// Counts the instructions that a program executes in one function: step-counter FUNCTION PROGRAM
// [ARGUMENT...]
//
// For what valgrind cannot execute (AVX-512). The processor itself stops behind each instruction, which takes
// microseconds: some hundred thousand instructions a second, and all of them as the machine has them.
//
// The first call of the function is counted, whatever it calls included, of the one thread that there is by
// then; a repeated string instruction counts each time. Prints "steps N" to the standard error stream. Ends
// as the program does; with 77, and before anything is counted, where a process may not be traced; with 125
// and a message where it cannot be done.
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int not_here = 77;
constexpr int failed = 125;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "step-counter: %s\n", message.c_str());
  std::exit(failed);
}

template <typename Value>
Value read_at(const std::vector<char>& bytes, std::size_t at) {
  Value value;
  if (at > bytes.size() || bytes.size() - at < sizeof value) fail("the program's symbols cannot be read");
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Where a function begins, from the program's entry point on.
std::int64_t distance_from_entry(const char* program, std::string_view function) {
  std::ifstream file(program, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    fail(std::string(program) + " is no program for this machine");
  const auto section = [&](std::size_t index) {
    return read_at<Elf64_Shdr>(bytes, header.e_shoff + index * header.e_shentsize);
  };
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(i);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    const Elf64_Shdr names = section(symbols.sh_link);
    for (std::size_t at = 0; at < symbols.sh_size; at += symbols.sh_entsize) {
      const auto symbol = read_at<Elf64_Sym>(bytes, symbols.sh_offset + at);
      const std::size_t name_at = names.sh_offset + symbol.st_name;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      if (name_at < bytes.size() && function == &bytes[name_at])
        return static_cast<std::int64_t>(symbol.st_value - header.e_entry);
    }
  }
  fail(std::string(program) + " has no function " + std::string(function));
}

/// A program that stops where it is told to.
class Traced {
 public:
  /// Stopped before its first instruction.
  Traced(char** arguments) : process_(fork()) {
    if (process_ < 0) fail("no process can be made");
    if (process_ == 0) {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(not_here);
      execv(arguments[0], arguments);
      _exit(failed);
    }
    if (const std::optional<int> status = wait()) {
      if (*status == failed) fail(std::string(arguments[0]) + " cannot be executed");
      std::exit(*status);
    }
    // Should this process end, so does the other.
    ptrace(PTRACE_SETOPTIONS, process_, nullptr, PTRACE_O_EXITKILL);
  }

  /// Goes on to an address, which the program has not yet come to. @return its exit status, where it has
  /// ended
  std::optional<int> go_to(std::uint64_t address) {
    constexpr long breakpoint = 0xcc;
    const long word = ptrace(PTRACE_PEEKTEXT, process_, address, nullptr);
    ptrace(PTRACE_POKETEXT, process_, address, (word & ~0xffL) | breakpoint);
    if (const std::optional<int> status = go_on(PTRACE_CONT)) return status;
    ptrace(PTRACE_POKETEXT, process_, address, word);
    user_regs_struct registers = this->registers();
    registers.rip = address;
    ptrace(PTRACE_SETREGS, process_, nullptr, &registers);
    return std::nullopt;
  }
  std::optional<int> step() { return go_on(PTRACE_SINGLESTEP); }
  std::optional<int> go_to_end() { return go_on(PTRACE_CONT); }

  /// Where the program begins, behind what the dynamic loader does for it.
  std::uint64_t entry() const {
    std::ifstream file("/proc/" + std::to_string(process_) + "/auxv", std::ios::binary);
    for (Elf64_auxv_t value; file.read(reinterpret_cast<char*>(&value), sizeof value);)
      if (value.a_type == AT_ENTRY) return value.a_un.a_val;
    fail("nothing says where the program begins");
  }
  std::uint64_t stack() const {
    return static_cast<std::uint64_t>(
        ptrace(PTRACE_PEEKUSER, process_, offsetof(user_regs_struct, rsp), nullptr));
  }

 private:
  user_regs_struct registers() const {
    user_regs_struct registers{};
    ptrace(PTRACE_GETREGS, process_, nullptr, &registers);
    return registers;
  }
  /// Until it stops by itself; signals to the program are the program's.
  std::optional<int> go_on(__ptrace_request how) {
    int signal = 0;
    while (true) {
      if (ptrace(how, process_, nullptr, signal) != 0) fail("the program cannot be led on");
      if (const std::optional<int> status = wait()) return status;
      if (stopped_by_ == SIGTRAP) return std::nullopt;
      signal = stopped_by_;
    }
  }
  /// @return its exit status, where it has ended
  std::optional<int> wait() {
    int status = 0;
    if (waitpid(process_, &status, 0) != process_) fail("the program cannot be waited for");
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    stopped_by_ = WSTOPSIG(status);
    return std::nullopt;
  }

  pid_t process_;
  int stopped_by_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s FUNCTION PROGRAM [ARGUMENT...]\n", argv[0]);
    return 2;
  }
  const std::int64_t distance = distance_from_entry(argv[2], argv[1]);
  Traced program(argv + 2);
  if (const std::optional<int> status = program.go_to(program.entry() + static_cast<std::uint64_t>(distance)))
    return *status;
  // Its return address is popped when it returns, and not before.
  const std::uint64_t stack = program.stack();
  std::uint64_t steps = 0;
  while (program.stack() <= stack) {
    if (const std::optional<int> status = program.step()) fail("the program ended in the function");
    ++steps;
  }
  const std::optional<int> status = program.go_to_end();
  std::fprintf(stderr, "steps %llu\n", static_cast<unsigned long long>(steps));
  return status.value_or(failed);
}
