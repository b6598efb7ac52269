// SPDX-License-Identifier: BSD-3-Clause
/// @file
/// The path templates of rules, and how a normalised path is held against one.
///
/// A template is a '/' and segments separated by '/'. A segment is
///   literal   exactly these bytes, case-sensitive, written decoded ("/a b", never "/a%20b");
///   {name}    any one segment; its text is the value of the dimension "path:name";
///   *         any one segment;
///   **        as the last segment only: whatever follows, nothing included.
/// The number of segments must agree. A template that ends in '/' matches only paths that do; one that does
/// not, matches both forms: "/login" also matches "/login/", or else one more slash would slip past the
/// limit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// The longest template, in bytes.
inline constexpr std::size_t max_path_template = 1024;
/// The most segments a template may have.
inline constexpr std::size_t max_path_template_segments = 64;

/// A mistake in a template.
struct PathTemplateError {
  std::size_t offset = 0;  ///< of the first byte that is wrong
  std::string message;     ///< what is wrong and what to do
};

/// The first mistake in a template, if any. The empty text is a mistake here: a rule without a path has no
/// template. Allocates, any thread.
std::optional<PathTemplateError> check_path_template(std::string_view text);

/// The names of a template's variables, in order. @pre check_path_template(text) finds nothing. Allocates,
/// any thread.
std::vector<std::string> path_template_variables(std::string_view text);

/// A path cut into its segments, so that many templates can be held against it. Views into the path.
class PathSegments {
 public:
  /// @param path  normalised; one that does not begin with '/' (as "*" does not) has no segments and matches
  /// nothing
  /// @param slashes  bit i: a '/' at byte i; all of them, or 0: not known
  explicit PathSegments(std::string_view path, std::uint64_t slashes = 0) noexcept;

  bool matchable() const noexcept { return matchable_; }
  bool trailing_slash() const noexcept { return trailing_slash_; }
  /// All segments of the path, those beyond the array included.
  std::size_t count() const noexcept { return count_; }
  /// @pre index < count() and index < max_path_template_segments
  std::string_view operator[](std::size_t index) const noexcept { return {begins_[index], lengths_[index]}; }

 private:
  // Left uninitialised beyond count_: this is built once per request.
  const char* begins_[max_path_template_segments];
  std::uint32_t lengths_[max_path_template_segments];
  std::size_t count_ = 0;
  bool matchable_ = false;
  bool trailing_slash_ = false;
};

/// One segment of a path; empty: it has none with this index.
/// @param slashes  bit i: a '/' at byte i; all of them, or 0: not known
inline std::string_view segment_of(std::string_view path, std::uint64_t slashes, std::size_t index) noexcept {
  if (slashes != 0) {
    for (; index != 0 && slashes != 0; --index) slashes &= slashes - 1;
    if (slashes == 0) return {};
    const auto begin = static_cast<std::size_t>(std::countr_zero(slashes)) + 1;
    slashes &= slashes - 1;
    const std::size_t end = slashes != 0 ? static_cast<std::size_t>(std::countr_zero(slashes)) : path.size();
    return path.substr(begin, end - begin);
  }
  std::size_t begin = 1;
  for (; index != 0 && begin < path.size(); --index) begin = std::min(path.find('/', begin), path.size()) + 1;
  if (begin >= path.size()) return {};
  return path.substr(begin, path.find('/', begin) - begin);
}

/// A path that is cut only for who asks for its segments: most templates are of literals alone, and compare
/// as one text.
class RequestPath {
 public:
  /// @param path, slashes  as PathSegments says
  RequestPath(std::string_view path, std::uint64_t slashes) noexcept : path_(path), slashes_(slashes) {}

  /// @return empty: there is none
  std::string_view first() const noexcept {
    return path_.starts_with('/') ? segment_of(path_, slashes_, 0) : std::string_view{};
  }
  std::string_view text() const noexcept { return path_; }
  const PathSegments& segments() noexcept {
    if (!segments_) segments_.emplace(path_, slashes_);
    return *segments_;
  }

 private:
  std::string_view path_;
  std::uint64_t slashes_;
  std::optional<PathSegments> segments_;
};

/// A template, compiled. Immutable; matching allocates nothing and may be done by any thread.
class PathTemplate {
 public:
  /// @pre check_path_template(text) finds nothing
  explicit PathTemplate(std::string_view text);

  /// @param known  segments from the first one on that are known to match
  bool matches(const PathSegments& path, std::size_t known = 0) const noexcept;
  /// The same.
  bool matches(RequestPath& path, std::size_t known = 0) const noexcept {
    return literal_ ? equals(path.text()) : matches(path.segments(), known);
  }

  /// Which segment a variable stands for; none if the template has no such variable.
  std::optional<std::size_t> variable(std::string_view name) const noexcept;

  /// The first segment where it is a literal; else empty. Lets a caller rule out most templates with one
  /// comparison.
  std::string_view first_literal() const noexcept;

 private:
  struct Segment {
    enum class Kind : std::uint8_t { literal, variable, any };
    Kind kind = Kind::literal;
    std::string text;  ///< of a literal, or a variable's name
  };
  /// @pre there are literals alone
  bool equals(std::string_view path) const noexcept {
    const std::size_t size = literals_.size();
    if (!path.starts_with(literals_) || path.empty()) return false;
    if (path.size() == size) return !trailing_slash_;
    return path[size] == '/' && (open_end_ || path.size() == size + 1);
  }

  std::vector<Segment> segments_;
  std::string literals_;         ///< "/a/b": all segments,
  bool literal_ = true;          ///< if they are literals
  bool open_end_ = false;        ///< ends in "**"
  bool trailing_slash_ = false;  ///< ends in '/'
};

}  // namespace weir
