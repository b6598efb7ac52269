// SPDX-License-Identifier: BSD-3-Clause
#include "command-line/written_file.h"

#include <sys/stat.h>
#include <unistd.h>

namespace weir::command_line {

bool writes_over(const std::string& read, const std::string& written) {
  struct stat from {};
  struct stat to {};
  const int found = read == "-" ? fstat(STDIN_FILENO, &from) : stat(read.c_str(), &from);
  return found == 0 && S_ISREG(from.st_mode) && stat(written.c_str(), &to) == 0 && from.st_dev == to.st_dev &&
         from.st_ino == to.st_ino;
}

}  // namespace weir::command_line
