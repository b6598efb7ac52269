// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// Runs the program weir-replay in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace weir::test {

struct Ran {
  int status = -1;  ///< exit status; -1: it did not exit by itself
  std::string output;
  std::string errors;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string_view::npos; begin = end + 1)
    parts.emplace_back(text.substr(begin, end - begin));
  parts.emplace_back(text.substr(begin));
  return parts;
}

/// A line of the table of requests, by column.
using Row = std::map<std::string, std::string>;

inline std::vector<Row> parse_table(std::string_view text) {
  std::vector<Row> rows;
  EXPECT_TRUE(text.ends_with('\n'));
  if (text.ends_with('\n')) text.remove_suffix(1);
  const auto lines = split(text, '\n');
  const auto names = split(lines.front(), '\t');
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto fields = split(lines[i], '\t');
    EXPECT_EQ(fields.size(), names.size()) << lines[i];
    Row& row = rows.emplace_back();
    for (std::size_t k = 0; k < std::min(fields.size(), names.size()); ++k) {
      EXPECT_FALSE(fields[k].empty()) << lines[i];
      row[names[k]] = fields[k];
    }
  }
  return rows;
}

/// The numbers that follow a label in the summary ("login  8  5  3  1").
inline std::vector<std::string> summary_cells(std::string_view summary, std::string_view label) {
  for (const std::string& line : split(summary, '\n')) {
    std::string_view rest = line;
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (!rest.starts_with(label) ||
        (rest.size() > label.size() && !rest.substr(label.size()).starts_with("  ")))
      continue;
    std::istringstream words{std::string(rest.substr(label.size()))};
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    return cells;
  }
  ADD_FAILURE() << "no line '" << label << "' in\n" << summary;
  return {};
}

inline std::uint64_t summary_number(std::string_view summary, std::string_view label) {
  const auto cells = summary_cells(summary, label);
  return cells.empty() ? ~std::uint64_t{0} : std::stoull(cells.front());
}

class ReplayProgram : public testing::Test {
 protected:
  ReplayProgram() {
    std::string pattern = testing::TempDir() + "weir-replay-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    folder_ = pattern;
  }
  ~ReplayProgram() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  /// @param arguments  for the shell; the current folder is the test's own
  Ran run(const std::string& arguments) const {
    const char* program = std::getenv("WEIR_REPLAY");
    if (program == nullptr) {
      ADD_FAILURE() << "WEIR_REPLAY does not say where the program is";
      return {};
    }
    const std::string command =
        "cd '" + folder_.string() + "' && '" + program + "' " + arguments + " >stdout 2>stderr";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder_ / "stdout"),
            read_file(folder_ / "stderr")};
  }

  /// Plays a capture under a configuration; `rows` is the table of requests.
  Ran play(std::string_view capture, std::string_view config, std::vector<Row>& rows) const {
    write("capture", capture);
    write("config.toml", config);
    Ran ran = run("--config config.toml --pcap capture --requests table.tsv");
    rows = parse_table(read_file(folder_ / "table.tsv"));
    return ran;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace weir::test
