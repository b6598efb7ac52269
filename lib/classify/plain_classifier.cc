// SPDX-License-Identifier: BSD-3-Clause
#include "classify/plain_classifier.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "classify/without_rare.h"

namespace weir {
namespace {

constexpr std::size_t source_address_at = 26;
constexpr std::size_t destination_address_at = 30;
constexpr std::size_t destination_port_at = 36;
constexpr std::size_t address_size = 4;

/// @return without data: there is none
std::string_view value_of(const PlainHeads& heads, std::size_t index, std::size_t at) noexcept {
  const PlainHeads::Value value = heads.values[index][at];
  if (value.end == 0) return {};
  return {heads.payloads[at] + value.begin, static_cast<std::size_t>(value.end - value.begin)};
}

/// With the slash at its end.
std::string_view whole_path_of(const PlainHeads& heads, std::size_t at) noexcept {
  const std::string_view path = value_of(heads, PlainHeads::path, at);
  // The path lies in the first 64 bytes, behind two at least.
  return {path.data(), path.size() + (heads.slashes[at] >> path.size() & 1)};
}

std::uint16_t port_at(const PlainFrame& frame, std::size_t at) noexcept {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(frame.bytes[at]) << 8 |
                                    std::to_integer<unsigned>(frame.bytes[at + 1]));
}

std::array<std::uint8_t, address_size> address_at(const PlainFrame& frame, std::size_t at) noexcept {
  std::array<std::uint8_t, address_size> address;
  std::memcpy(address.data(), frame.bytes + at, address.size());
  return address;
}

void add_address(const PlainFrame& frame, std::size_t at, std::uint8_t bits,
                 KeyHash::Fields& fields) noexcept {
  std::array<std::uint8_t, address_size> address = address_at(frame, at);
  const std::uint32_t kept = bits == 0 ? 0 : ~std::uint32_t{0} << (32 - bits);
  for (std::size_t i = 0; i < address.size(); ++i)
    address[i] = static_cast<std::uint8_t>(address[i] & kept >> (24 - 8 * i));
  fields.add(key_form::ipv4, bits, 2, std::as_bytes(std::span(address)));
}

/// @return the index of the field with this role, of several headers the one with this name
std::optional<std::uint8_t> find_field(const SoughtFields& sought, std::uint8_t role, std::uint8_t chosen) {
  for (std::uint8_t i = 0; i < sought.field_count; ++i) {
    const SoughtFields::Field& field = sought.fields[i];
    if ((field.roles & role) != 0 && (role != SoughtFields::is_chosen || field.chosen == chosen)) return i;
  }
  return std::nullopt;
}

/// @param texts  in the order of the key
TextKeys text_keys(std::span<const std::uint8_t> texts, std::size_t rule) {
  TextKeys keys;
  keys.count = texts.size();
  keys.tweak = rule;
  std::copy(texts.begin(), texts.end(), keys.values.begin());
  return keys;
}

}  // namespace

PlainClassifier::PlainClassifier(std::span<const CompiledRule> rules, const RulesBySegment& by_segment,
                                 const HeaderSelection& headers, InstructionSet set)
    : compiled_(rules),
      by_segment_(by_segment),
      sought_(headers.sought_),
      scans_(scans_of(set)),
      unconditional_(rules.size() <= max_rules_per_request) {
  using Kind = Dimension::Kind;
  // A host is shortened where it is found, and then nothing tells the header's value.
  for (std::size_t i = 0; i < sought_.field_count; ++i)
    if (sought_.fields[i].roles == (SoughtFields::is_host | SoughtFields::is_chosen)) return;
  const std::optional<std::uint8_t> host = find_field(sought_, SoughtFields::is_host, 0);
  host_value_ = static_cast<std::uint8_t>(PlainHeads::fields + host.value_or(0));
  wants_host_ = host.has_value();
  for (const CompiledRule& rule : rules) {
    wants_segments_ = wants_segments_ || rule.path.has_value();
    PlainRule plain;
    if (rule.key.size() > max_dimensions) return;
    unconditional_ = unconditional_ && rule.applies_always;
    for (const CompiledDimension& dimension : rule.key) {
      Part part{dimension.kind};
      part.ipv4_bits = std::min<std::uint8_t>(dimension.ipv4_bits, 32);
      if (dimension.segment) part.segment = static_cast<std::uint16_t>(*dimension.segment);
      if (dimension.kind == Kind::host) {
        if (!host) return;
        part.value = host_value_;
      } else if (dimension.kind == Kind::header) {
        std::optional<std::uint8_t> field;
        for (std::uint8_t i = 0; i < headers.size(); ++i)
          if (headers[i] == dimension.name) field = find_field(sought_, SoughtFields::is_chosen, i);
        if (!field) return;
        part.value = static_cast<std::uint8_t>(PlainHeads::fields + *field);
      } else if (dimension.kind == Kind::path) {
        part.value = PlainHeads::path;
      }
      plain.parts.push_back(part);
    }
    const auto is_value = [](const Part& part) {
      return part.kind == Kind::method || part.kind == Kind::path || part.kind == Kind::host ||
             part.kind == Kind::header;
    };
    if (std::all_of(plain.parts.begin(), plain.parts.end(), is_value))
      for (const Part& part : plain.parts) plain.texts.push_back(part.value);
    if (scans_.hash_texts != nullptr && !plain.texts.empty())
      plain.keys = text_keys(plain.texts, rules_.size());
    rules_.push_back(std::move(plain));
  }
  // None would have room.
  usable_ = static_cast<std::size_t>(std::ranges::count_if(rules, &CompiledRule::applies_always)) <=
            max_rules_per_request;
}

void PlainClassifier::classify(std::span<const PlainFrame> frames, const KeyHash& hash, PlainKeys& keys,
                               std::span<const PlainFrame> next) const noexcept {
  keys.requests = 0;
  keys.rule_count = 0;
  if (!usable_) return;
  keys.requests =
      scans_.find_plain(frames.data(), frames.size(), sought_, keys.heads, next.data(), next.size());
  if (unconditional_) {
    keys.rule_count = rules_.size();
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      keys.rules[i].rule = static_cast<RuleIndex>(i);
      keys.rules[i].requests = keys.requests;
    }
  } else {
    choose(frames, keys);
  }
  for (std::size_t column = 0; column < keys.rule_count; ++column) {
    PlainKeys::OfRule& of_rule = keys.rules[column];
    const PlainRule& rule = rules_[of_rule.rule];
    if (rule.parts.empty()) continue;
    if (!rule.texts.empty()) {
      if (rule.keys)
        keys.requests = without_rare(
            keys.requests,
            scans_.hash_texts(keys.heads, of_rule.requests, *rule.keys, hash.words(), of_rule.hashes.data()));
      else if (rule.texts.size() < KeyHash::most_of_few)
        hash_texts<true>(rule, hash, column, keys);
      else
        hash_texts<false>(rule, hash, column, keys);
      continue;
    }
    for (std::uint32_t rest = of_rule.requests; rest != 0; rest &= rest - 1) {
      const auto at = static_cast<std::size_t>(std::countr_zero(rest));
      KeyHash::Fields fields(hash);
      if (hash_key(rule, frames[at], keys.heads, at, fields)) [[likely]]
        of_rule.hashes[at] = fields.value(of_rule.rule);
      else
        keys.requests &= ~(std::uint32_t{1} << at);
    }
  }
}

/// The common case of a key, in a loop of its own. @tparam few  so few that all find room whole, however long
template <bool few>
void PlainClassifier::hash_texts(const PlainRule& rule, const KeyHash& hash, std::size_t column,
                                 PlainKeys& keys) const noexcept {
  PlainKeys::OfRule& of_rule = keys.rules[column];
  const std::span<const std::uint8_t> values = rule.texts;
  for (std::uint32_t rest = of_rule.requests; rest != 0; rest &= rest - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(rest));
    const char* const payload = keys.heads.payloads[at];
    const std::size_t payload_size = keys.heads.sizes[at];
    KeyHash::Texts<few> texts(hash);
    std::size_t lengths = 0;
    bool crowded = false;
    for (const std::uint8_t index_of_value : values) {
      const PlainHeads::Value value = keys.heads.values[index_of_value][at];
      if (value.end == 0) {
        texts.add_absent();
        continue;
      }
      const auto size = static_cast<std::size_t>(value.end - value.begin);
      lengths |= size;
      // As Classifier does: behind three of the longest values there may not be room for another.
      if constexpr (!few) crowded |= texts.size() > 2 * (2 + max_value_bytes);
      // Nor is there key for more than that.
      if (lengths >= max_value_bytes || crowded) [[unlikely]]
        break;
      texts.add_text(payload + value.begin, size, payload_size - value.begin);
    }
    of_rule.hashes[at] = texts.value(of_rule.rule);
    // As long as the longest that is kept as it is is taken for longer.
    static_assert(std::has_single_bit(max_value_bytes));
    if (lengths >= max_value_bytes || crowded) [[unlikely]]
      keys.requests &= ~(std::uint32_t{1} << at);
  }
}

/// The rules that apply to some request. Requests for whose rules there is no room are left out: also such as
/// more apply to than may.
void PlainClassifier::choose(std::span<const PlainFrame> frames, PlainKeys& keys) const noexcept {
  std::uint32_t left_out = 0;
  const PlainHeads& heads = keys.heads;
  for (std::uint32_t rest = keys.requests; rest != 0; rest &= rest - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(rest));
    const std::uint32_t request = std::uint32_t{1} << at;
    const std::size_t before = keys.rule_count;
    RequestPath path(wants_segments_ ? whole_path_of(heads, at) : std::string_view{}, heads.slashes[at]);
    const std::string_view host = wants_host_ ? value_of(heads, host_value_, at) : std::string_view{};
    const auto has_room = [&](RuleIndex rule) {
      PlainKeys::OfRule* const of_rule = keys.column_of(rule);
      if (of_rule == nullptr) return false;
      of_rule->requests |= request;
      return true;
    };
    if (by_segment_.for_each_applying(compiled_, value_of(heads, PlainHeads::method, at),
                                      port_at(frames[at], destination_port_at), host, path, has_room))
        [[likely]]
      continue;
    left_out |= request;
    keys.forget_columns(before);
    keys.rule_count = before;
    // Who is left out is held against the rules once more: so not where that takes long.
    if (by_segment_.others() > max_rules_per_request) {
      left_out |= rest;
      break;
    }
  }
  keys.forget_columns();
  keys.requests &= ~left_out;
  put_in_order(keys);
}

/// The columns in order of the configuration. There are no hashes in them yet.
void PlainClassifier::put_in_order(PlainKeys& keys) noexcept {
  struct Column {
    RuleIndex rule;
    std::uint32_t requests;
  };
  std::array<Column, max_rules_per_request> columns;
  const std::span<Column> used = std::span(columns).first(keys.rule_count);
  for (std::size_t i = 0; i < used.size(); ++i) used[i] = {keys.rules[i].rule, keys.rules[i].requests};
  std::ranges::sort(used, {}, &Column::rule);
  for (std::size_t i = 0; i < used.size(); ++i) {
    keys.rules[i].rule = used[i].rule;
    keys.rules[i].requests = used[i].requests & keys.requests;
  }
}

/// @return without data: there is none
[[gnu::always_inline]] inline std::string_view PlainClassifier::text_of(const Part& part,
                                                                        const PlainHeads& heads,
                                                                        std::size_t at) noexcept {
  if (part.kind != Dimension::Kind::path_variable) return value_of(heads, part.value, at);
  if (part.segment == Part::none) return {};
  const std::string_view segment = segment_of(whole_path_of(heads, at), heads.slashes[at], part.segment);
  return segment.empty() ? std::string_view{} : segment;
}

/// @return false: a value is too long to be kept as it is
[[gnu::always_inline]] inline bool PlainClassifier::hash_key(const PlainRule& rule, const PlainFrame& frame,
                                                             const PlainHeads& heads, std::size_t at,
                                                             KeyHash::Fields& fields) const noexcept {
  using Kind = Dimension::Kind;
  const char* const end = heads.payloads[at] + heads.sizes[at];
  for (const Part& part : rule.parts) {
    switch (part.kind) {
      case Kind::source_address:
        add_address(frame, source_address_at, part.ipv4_bits, fields);
        continue;
      case Kind::destination_address:
        add_address(frame, destination_address_at, part.ipv4_bits, fields);
        continue;
      case Kind::destination_port:
        if (const std::uint16_t port = port_at(frame, destination_port_at); port != 0)
          fields.add_number(port);
        else
          fields.add_absent();
        continue;
      default:
        break;
    }
    const std::string_view text = text_of(part, heads, at);
    if (text.data() == nullptr) {
      fields.add_absent();
      continue;
    }
    // Likewise.
    if (text.size() > max_value_bytes || fields.size() > 2 * (2 + max_value_bytes)) [[unlikely]]
      return false;
    fields.add_text(text, static_cast<std::size_t>(end - text.data()));
  }
  return true;
}

void PlainClassifier::make_key(RuleIndex rule, const PlainFrame& frame, const PlainHeads& heads,
                               std::size_t at, KeyBytes& key) const noexcept {
  using Kind = Dimension::Kind;
  const auto add = [&](std::size_t address, std::uint8_t bits) {
    IpAddress ip;
    ip.family = IpAddress::Family::v4;
    const std::array bytes = address_at(frame, address);
    std::copy(bytes.begin(), bytes.end(), ip.bytes.begin());
    key.add_prefix(ip, bits, 0);
  };
  key.clear();
  for (const Part& part : rules_[rule].parts) {
    if (part.kind == Kind::source_address) {
      add(source_address_at, part.ipv4_bits);
    } else if (part.kind == Kind::destination_address) {
      add(destination_address_at, part.ipv4_bits);
    } else if (part.kind == Kind::destination_port) {
      if (const std::uint16_t port = port_at(frame, destination_port_at); port != 0)
        key.add_number(port);
      else
        key.add_absent();
    } else if (const std::string_view text = text_of(part, heads, at); text.data() != nullptr) {
      key.add_text(text);
    } else {
      key.add_absent();
    }
  }
}

}  // namespace weir
