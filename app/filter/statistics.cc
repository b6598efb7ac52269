// SPDX-License-Identifier: BSD-3-Clause
#include "filter/statistics.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace weir::filter {
namespace {

/// printf into a string. (std::format came with gcc 13.)
[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string out(static_cast<std::size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(out.data(), out.size() + 1, format, again);
  va_end(again);
  return out;
}

unsigned long long wide(std::uint64_t value) { return value; }

double per_second(std::uint64_t before, std::uint64_t now, const Snapshot& from, const Snapshot& to) {
  const double seconds = std::chrono::duration<double>(to.uptime - from.uptime).count();
  return seconds <= 0 ? 0 : static_cast<double>(now - std::min(before, now)) / seconds;
}

const char* store_state(const Figures& figures, bool shared) {
  if (!shared) return "none";
  return figures.store_up ? "up" : "down";
}

long long microseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

std::string mebibytes(std::size_t bytes) {
  return text("%.1f MiB", static_cast<double>(bytes) / (1024 * 1024));
}

std::string joined(std::span<const std::string> words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

std::string dimension_text(const Dimension& dimension) {
  const auto prefix = [&](const char* name) {
    return text("%s/%u/%u", name, unsigned{dimension.ipv4_bits}, unsigned{dimension.ipv6_bits});
  };
  switch (dimension.kind) {
    case Dimension::Kind::source_address:
      return prefix("src_ip");
    case Dimension::Kind::destination_address:
      return prefix("dst_ip");
    case Dimension::Kind::destination_port:
      return "dst_port";
    case Dimension::Kind::method:
      return "method";
    case Dimension::Kind::host:
      return "host";
    case Dimension::Kind::path:
      return "path";
    case Dimension::Kind::path_variable:
      return "path:" + dimension.name;
    case Dimension::Kind::header:
      return "header:" + dimension.name;
  }
  return "?";
}

std::string match_text(const Match& match) {
  std::string out;
  if (!match.methods.empty()) out += " method " + joined(match.methods);
  if (!match.host.empty()) out += " host " + match.host;
  if (!match.path.empty()) out += " path " + match.path;
  if (!match.destination_ports.empty()) {
    out += " port";
    for (const std::uint16_t port : match.destination_ports) out += " " + std::to_string(port);
  }
  return out.empty() ? " every request" : out;
}

/// What makes the algorithm this rule's, in the words of the configuration; what is as it usually is, is left
/// out.
std::string algorithm_text(const Rule& rule) {
  std::string out(to_string(rule.algorithm));
  switch (rule.algorithm) {
    case Algorithm::cooldown:
      out += " " + duration_text(rule.cooldown);
      break;
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket:
      out += text(", burst %llu", wide(rule.burst == 0 ? rule.limit : rule.burst));
      break;
    default:
      break;
  }
  if (rule.warmup != Duration::zero()) out += ", warmup " + duration_text(rule.warmup);
  if (rule.dephase != Duration::zero()) out += ", dephase " + duration_text(rule.dephase);
  if (rule.hold_back != Rule().hold_back) out += text(", hold_back %g", rule.hold_back);
  if (rule.early_block != EarlyBlock::sound)
    out += ", early_block " + std::string(to_string(rule.early_block));
  if (rule.local_rule != LocalRule::cumulative)
    out += ", local_rule " + std::string(to_string(rule.local_rule));
  if (rule.debt) out += ", debt";
  if (rule.penalize) out += ", penalize";
  return out;
}

std::string rule_text(const Rule& rule) {
  std::string key;
  for (const Dimension& dimension : rule.key) key += (key.empty() ? "" : ", ") + dimension_text(dimension);
  std::string out = "rule " + rule.name + ":" + match_text(rule.match);
  out += "; " + (key.empty() ? std::string("one key for all") : "a key per " + key);
  out += text("; limit %llu per %s in %u spans", wide(rule.limit), duration_text(rule.interval).c_str(),
              rule.spans);
  if (rule.weight != 1) out += text("; weight %u", rule.weight);
  out += "; " + algorithm_text(rule);
  out += "; action " + std::string(to_string(rule.action));
  return out + "; without the store: " + std::string(to_string(rule.on_store_failure)) + "\n";
}

/// What ports have lost, added up.
PortState losses(std::span<const PortState> ports) {
  PortState all;
  for (const PortState& port : ports) {
    all.missed += port.missed;
    all.no_buffer += port.no_buffer;
    all.errors += port.errors;
    all.unsent += port.unsent;
  }
  return all;
}

/// "1:12,3:4"
std::string lost_at(std::span<const PortState> ports) {
  std::string out;
  for (const PortState& port : ports)
    if (port.lost() != 0)
      out += text("%s%u:%llu", out.empty() ? "" : ",", unsigned{port.port}, wide(port.lost()));
  return out.empty() ? "none" : out;
}

unsigned links_down(std::span<const PortState> ports) {
  return static_cast<unsigned>(std::ranges::count(ports, Link::down, &PortState::link));
}

std::string rule_state(const RuleFigures& rule) {
  if (rule.blocked_keys == 0) return "open";
  return text("%llu key%s blocked", wide(rule.blocked_keys), rule.blocked_keys == 1 ? "" : "s");
}

}  // namespace

std::string duration_text(Duration duration) {
  const auto count = static_cast<long long>(duration.count());
  if (count % 1'000'000'000 == 0) return text("%llds", count / 1'000'000'000);
  if (count % 1'000'000 == 0) return text("%lldms", count / 1'000'000);
  if (count % 1'000 == 0) return text("%lldus", count / 1'000);
  return text("%lldns", count);
}

std::string shown_url(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return std::string(url);
  const std::size_t begin = scheme + 3;
  const std::size_t at = url.rfind('@');
  if (at == std::string_view::npos || at < begin) return std::string(url);
  const std::size_t colon = url.find(':', begin);
  if (colon == std::string_view::npos || colon > at) return std::string(url);
  return std::string(url.substr(0, colon + 1)) + "***" + std::string(url.substr(at));
}

std::string statistics_line(const std::string& node, const Snapshot& before, const Snapshot& now,
                            bool shared) {
  const Totals& totals = now.totals;
  const Figures& figures = now.figures;
  const PortState lost = losses(now.ports);
  return text(
      "time=%.3f node=%s rx=%llu tx=%llu pps=%.0f requests=%llu admitted=%llu blocked=%llu observed=%llu "
      "dropped=%llu "
      "tx_drops=%llu tx_errors=%llu rx_missed=%llu rx_no_buffer=%llu rx_errors=%llu rx_lost_at=%s "
      "links_down=%u "
      "malformed=%llu cut_heads=%llu generation=%llu keys=%llu overflowed=%llu store=%s sync_rtt_us=%lld "
      "pending=%llu expired=%llu overruns=%llu stalled=%llu\n",
      now.unix_seconds, node.c_str(), wide(totals.received), wide(totals.transmitted),
      per_second(before.totals.received, totals.received, before, now), wide(totals.requests),
      wide(totals.admitted), wide(totals.blocked), wide(now.observed), wide(totals.dropped),
      wide(totals.transmit_drops), wide(lost.unsent), wide(lost.missed), wide(lost.no_buffer),
      wide(lost.errors), lost_at(now.ports).c_str(), links_down(now.ports), wide(totals.malformed),
      wide(totals.cut_heads), wide(figures.publication_generation), wide(figures.keys),
      wide(figures.overflowed), store_state(figures, shared), microseconds(figures.store_round_trip),
      wide(figures.counts_pending), wide(figures.counts_expired), wide(figures.span_overruns),
      wide(figures.stalled_workers));
}

std::string rules_table(const Snapshot& before, const Snapshot& now, std::span<const Rule> rules) {
  std::size_t width = 4;
  for (const Rule& rule : rules) width = std::max(width, rule.name.size());
  const int name_width = static_cast<int>(width);
  std::string out = text("%-*s %12s %12s %12s %10s %16s  %s\n", name_width, "rule", "offered", "admitted",
                         "blocked", "rate/s", "limit", "state");
  for (std::size_t i = 0; i < std::min(rules.size(), now.figures.rules.size()); ++i) {
    const RuleFigures& rule = now.figures.rules[i];
    const std::uint64_t offered_before =
        i < before.figures.rules.size() ? before.figures.rules[i].offered : 0;
    const std::string limit = text("%llu/%s", wide(rules[i].limit), duration_text(rules[i].interval).c_str());
    out +=
        text("%-*s %12llu %12llu %12llu %10.0f %16s  %s\n", name_width, rules[i].name.c_str(),
             wide(rule.offered), wide(rule.admitted), wide(rule.blocked),
             per_second(offered_before, rule.offered, before, now), limit.c_str(), rule_state(rule).c_str());
  }
  return out;
}

std::string live_heading(const Snapshot& before, const Snapshot& now, bool shared) {
  const Totals& totals = now.totals;
  std::string out = text(
      "up %.0f s, %.0f packets/s, %llu requests, store %s, %llu keys, %llu frames not sent for want of "
      "room\n",
      std::chrono::duration<double>(now.uptime).count(),
      per_second(before.totals.received, totals.received, before, now), wide(totals.requests),
      store_state(now.figures, shared), wide(now.figures.keys), wide(totals.transmit_drops));
  for (const PortState& port : now.ports) {
    if (port.link == Link::down) out += port_text(port.port, port.name) + ": link down\n";
    if (port.lost() != 0)
      out +=
          text("%s has lost frames before they came here: %llu missed, %llu without a buffer, %llu broken\n",
               port_text(port.port, port.name).c_str(), wide(port.missed), wide(port.no_buffer),
               wide(port.errors));
    if (port.unsent != 0)
      out += text("%s has not sent %llu frames that it had taken\n", port_text(port.port, port.name).c_str(),
                  wide(port.unsent));
  }
  return out;
}

std::string total_lines(const Snapshot& end) {
  std::string out;
  for (const RuleFigures& rule : end.figures.rules)
    out += text("total rule=%s offered=%llu admitted=%llu blocked=%llu\n", rule.name.c_str(),
                wide(rule.offered), wide(rule.admitted), wide(rule.blocked));
  const Totals& totals = end.totals;
  out += text(
      "total packets rx=%llu tx=%llu crafted=%llu consumed=%llu tx_drops=%llu dropped=%llu absorbed=%llu "
      "malformed=%llu cut_heads=%llu requests=%llu admitted=%llu blocked=%llu observed=%llu\n",
      wide(totals.received), wide(totals.transmitted), wide(totals.crafted), wide(totals.consumed),
      wide(totals.transmit_drops), wide(totals.dropped), wide(totals.absorbed), wide(totals.malformed),
      wide(totals.cut_heads), wide(totals.requests), wide(totals.admitted), wide(totals.blocked),
      wide(end.observed));
  for (const PortState& port : end.ports)
    out +=
        text("total port=%u name=%s rx_missed=%llu rx_no_buffer=%llu rx_errors=%llu tx_errors=%llu link=%s\n",
             unsigned{port.port}, port.name.c_str(), wide(port.missed), wide(port.no_buffer),
             wide(port.errors), wide(port.unsent), to_string(port.link).data());
  return out + text("total store pending=%llu synced=%llu expired=%llu\n", wide(end.figures.counts_pending),
                    wide(end.figures.counts_synced), wide(end.figures.counts_expired));
}

std::string description(const Config& config, std::size_t table_memory, std::size_t worker_memory) {
  std::string out;
  for (const Rule& rule : config.rules) out += rule_text(rule);
  if (config.rules.empty()) out += "no rules: every request passes\n";
  out += "node: " + config.node.name + "\nports:";
  if (config.ports.pairs.empty()) out += " all there are, paired in order";
  for (const auto& [first, second] : config.ports.pairs)
    out += text(" %u-%u", unsigned{first}, unsigned{second});
  out += text("; %u descriptors per queue; ", unsigned{config.ports.descriptors});
  out += config.ports.queues == 0 ? "as many queues as workers"
                                  : text("%u queues", unsigned{config.ports.queues});
  if (config.ports.mtu != 0) out += text("; MTU %u", unsigned{config.ports.mtu});
  out +=
      "\nstore: " + shown_url(config.store.url) + ", timeout " + duration_text(config.store.timeout) + "\n";
  out += text("memory: %u keys; tables %s with one worker; each worker %s more, and DPDK's buffers\n",
              config.node.keys, mebibytes(table_memory).c_str(), mebibytes(worker_memory).c_str());
  return out;
}

}  // namespace weir::filter
