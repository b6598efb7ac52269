// SPDX-License-Identifier: BSD-3-Clause
#include "classify/classifier.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "classify/compiled_rule.h"
#include "classify/normalise.h"
#include "classify/path_template.h"
#include "classify/plain_classifier.h"
#include "classify/rules_by_segment.h"

namespace weir {
namespace {

constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

std::string_view trim(std::string_view text) noexcept {
  if (!text.empty() && !is_blank(text.front()) && !is_blank(text.back())) [[likely]]
    return text;
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// With and without a slash at the end a path counts as one, since rules match it either way.
std::string_view without_trailing_slash(std::string_view path) noexcept {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

/// The value of a header. @return without data: there is none
[[gnu::always_inline]] inline std::string_view value_of(std::span<const Header> headers,
                                                        const FieldName& name) noexcept {
  for (const Header& header : headers) {
    if (!name.equals(header.name)) continue;
    const std::string_view value = trim(header.value);
    return value.data() != nullptr ? value : std::string_view("");
  }
  return {};
}

/// The text of a dimension that has one. @return without data: it is absent
[[gnu::always_inline]] inline std::string_view text_of(const CompiledDimension& dimension,
                                                       const Request& request,
                                                       const Classifier::Scratch& scratch) noexcept {
  std::string_view text;
  if (dimension.value < scratch.values.size()) [[likely]]
    text = scratch.values[dimension.value];
  else if (dimension.kind == Dimension::Kind::header)
    return value_of(request.headers, dimension.field);  // an empty value is one
  else if (dimension.segment)
    text = segment_of(scratch.path, scratch.slashes, *dimension.segment);
  return text.empty() ? std::string_view{} : text;
}

/// Adds a dimension's text to what is hashed. @return false: the key's bytes would not hold it as it is
[[gnu::always_inline]] inline bool add_text(const CompiledDimension& dimension, const Request& request,
                                            const Classifier::Scratch& scratch,
                                            KeyHash::Fields& fields) noexcept {
  const std::string_view text = text_of(dimension, request, scratch);
  if (text.data() == nullptr) {
    fields.add_absent();
    return true;
  }
  // Three of the longest values are kept whole in any key; more than that is seldom.
  static_assert(3 * (2 + max_value_bytes) + (max_dimensions - 3) * key_form::reserved_per_field <=
                KeyBytes::capacity);
  if (text.size() > max_value_bytes || fields.size() > 2 * (2 + max_value_bytes)) [[unlikely]]
    return false;
  fields.add_text(text);
  return true;
}

}  // namespace

struct Classifier::Compiled {
  std::vector<CompiledRule> rules;
  RulesBySegment by_segment;
  HeaderSelection headers;
  const Scans& scans;
  std::optional<PlainClassifier> plain;
  bool unconditional = true;  ///< no rule's match asks for anything: those that apply are known beforehand
  std::array<RuleIndex, max_rules_per_request> first_rules{};  ///< as many as a request may have
  std::size_t first_rule_count = 0;
  bool first_rules_cut = false;  ///< there are more
  // What is of interest at all: what no rule looks at is not brought into its normal form.
  bool wants_host = false;
  bool wants_path = false;
  bool wants_segments = false;

  explicit Compiled(InstructionSet set) : headers(set), scans(scans_of(set)) {}
  void add(const Rule& rule);

  void select(const Request& request, Scratch& scratch) const noexcept;
};

void Classifier::Compiled::add(const Rule& rule) {
  using Kind = Dimension::Kind;
  rules.emplace_back(rule);
  unconditional = unconditional && rules.back().applies_always;
  first_rules_cut = first_rule_count == first_rules.size();
  if (!first_rules_cut) first_rules[first_rule_count++] = static_cast<RuleIndex>(rules.size() - 1);
  by_segment.add(static_cast<RuleIndex>(rules.size() - 1), rules.back().path);
  if (!rule.match.host.empty()) wants_host = true;
  if (!rule.match.path.empty()) wants_path = wants_segments = true;
  for (const Dimension& dimension : rule.key) {
    if (dimension.kind == Kind::header) headers.add(dimension.name);
    if (dimension.kind == Kind::host) wants_host = true;
    if (dimension.kind == Kind::path || dimension.kind == Kind::path_variable) wants_path = true;
  }
}

Classifier::Classifier(std::span<const Rule> rules, InstructionSet set) {
  auto compiled = std::make_unique<Compiled>(set);
  // By everything that a match says.
  std::map<std::tuple<std::vector<std::string>, std::string, std::string, std::vector<std::uint16_t>>,
           RuleIndex>
      alike;
  for (const Rule& rule : rules) {
    const auto index = static_cast<RuleIndex>(compiled->rules.size());
    compiled->add(rule);
    const auto& [methods, host, path, ports] = rule.match;
    compiled->rules.back().first_alike = alike.try_emplace({methods, host, path, ports}, index).first->second;
  }
  compiled->headers.want_host(compiled->wants_host);
  compiled->plain.emplace(compiled->rules, compiled->by_segment, compiled->headers, set);
  compiled_ = std::move(compiled);
}

Classifier::~Classifier() = default;
Classifier::Classifier(Classifier&&) noexcept = default;
Classifier& Classifier::operator=(Classifier&&) noexcept = default;

void Classifier::match(const Request& request, Scratch& scratch) const noexcept {
  const Compiled& compiled = *compiled_;
  scratch.values[value_index(Dimension::Kind::method)] = request.method;
  scratch.host = {};
  if (compiled.wants_host) {
    scratch.host = normalise_host(request.host, scratch.host_buffer, compiled.scans);
    scratch.values[value_index(Dimension::Kind::host)] = scratch.host;
  }
  NormalPath path;
  if (compiled.wants_path) {
    const TargetShape& shape = request.target_shape;
    // Set for this very target by the search that found it.
    if (shape.of == request.target.data() && shape.size == request.target.size() && shape.of != nullptr)
        [[likely]]
      path = {{shape.of, shape.path}, shape.slashes};
    // The target of CONNECT is an authority, not a path.
    else if (request.target.starts_with('/') || request.method != "CONNECT")
      path = normal_path(request.target, scratch.path_buffer, compiled.scans);
    scratch.values[value_index(Dimension::Kind::path)] = without_trailing_slash(path.text);
  }
  scratch.path = path.text;
  scratch.slashes = path.slashes;
  if (compiled.unconditional) {
    scratch.rules = compiled.first_rules;
    scratch.rule_count = compiled.first_rule_count;
    scratch.rules_cut = compiled.first_rules_cut;
  } else {
    compiled.select(request, scratch);
  }
}

/// The rules that apply, of which some have conditions. @pre the scratch's path and host are set
void Classifier::Compiled::select(const Request& request, Scratch& scratch) const noexcept {
  scratch.rule_count = 0;
  scratch.rules_cut = false;

  RequestPath path(wants_segments ? scratch.path : std::string_view{}, scratch.slashes);
  by_segment.for_each_applying(rules, request.method, request.destination_port, scratch.host, path,
                               [&](RuleIndex rule) {
                                 scratch.rules_cut = scratch.rule_count == scratch.rules.size();
                                 if (scratch.rules_cut) return false;
                                 scratch.rules[scratch.rule_count++] = rule;
                                 return true;
                               });
}

void Classifier::make_key(RuleIndex rule, const Request& request, const Scratch& scratch,
                          KeyBytes& key) const noexcept {
  key.clear();
  for (const CompiledDimension& dimension : compiled_->rules[rule].key) {
    switch (dimension.kind) {
      case Dimension::Kind::source_address:
        key.add_prefix(request.source, dimension.ipv4_bits, dimension.ipv6_bits);
        continue;
      case Dimension::Kind::destination_address:
        key.add_prefix(request.destination, dimension.ipv4_bits, dimension.ipv6_bits);
        continue;
      case Dimension::Kind::destination_port:
        if (request.destination_port == 0)
          key.add_absent();
        else
          key.add_number(request.destination_port);
        continue;
      default:
        break;
    }
    const std::string_view text = text_of(dimension, request, scratch);
    if (text.data() != nullptr)
      key.add_text(text);
    else
      key.add_absent();
  }
}

std::uint64_t Classifier::hash_key(RuleIndex rule, const Request& request, const Scratch& scratch,
                                   const KeyHash& hash) const noexcept {
  const CompiledRule& compiled = compiled_->rules[rule];
  if (!compiled.key_of_texts) [[unlikely]]
    return hash_mixed(rule, request, scratch, hash);
  KeyHash::Fields fields(hash);
  for (const CompiledDimension& dimension : compiled.key)
    if (!add_text(dimension, request, scratch, fields)) [[unlikely]]
      return hash_bytes(rule, request, scratch, hash);
  return fields.value(rule);
}

/// As hash_key(), of a key in which there are addresses or ports: apart, because what these need of the stack
/// the texts need not.
[[gnu::noinline]] std::uint64_t Classifier::hash_mixed(RuleIndex rule, const Request& request,
                                                       const Scratch& scratch,
                                                       const KeyHash& hash) const noexcept {
  const CompiledRule& compiled = compiled_->rules[rule];
  if (compiled.key.size() > max_dimensions) return hash_bytes(rule, request, scratch, hash);
  KeyHash::Fields fields(hash);
  for (const CompiledDimension& dimension : compiled.key) {
    switch (dimension.kind) {
      case Dimension::Kind::source_address:
        fields.add_prefix(request.source, dimension.ipv4_bits, dimension.ipv6_bits);
        break;
      case Dimension::Kind::destination_address:
        fields.add_prefix(request.destination, dimension.ipv4_bits, dimension.ipv6_bits);
        break;
      case Dimension::Kind::destination_port:
        if (request.destination_port == 0)
          fields.add_absent();
        else
          fields.add_number(request.destination_port);
        break;
      default:
        if (!add_text(dimension, request, scratch, fields)) return hash_bytes(rule, request, scratch, hash);
        break;
    }
  }
  return fields.value(rule);
}

/// As hash_key(), of the key's bytes.
[[gnu::noinline]] std::uint64_t Classifier::hash_bytes(RuleIndex rule, const Request& request,
                                                       const Scratch& scratch,
                                                       const KeyHash& hash) const noexcept {
  KeyBytes key;
  make_key(rule, request, scratch, key);
  return hash(rule, key.bytes());
}

const PlainClassifier& Classifier::plain() const noexcept { return *compiled_->plain; }

const HeaderSelection& Classifier::headers() const noexcept { return compiled_->headers; }

}  // namespace weir
