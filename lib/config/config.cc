// SPDX-License-Identifier: BSD-3-Clause
#include "weir/config.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "config/checks.h"
#include "config/findings.h"
#include "config/rule_table.h"
#include "config/toml.h"
#include "config/toml_table.h"

namespace weir {
namespace {

constexpr std::size_t max_file_size = 16 * 1024 * 1024;
ConfigResult failure(std::string_view file, Location where, std::string message) {
  ConfigResult result;
  result.errors.push_back({std::string(file), where.line, where.column, std::move(message)});
  return result;
}

std::string host_name() {
  std::array<char, max_name_length + 1> name{};
  if (gethostname(name.data(), name.size()) != 0) return "weir";
  name.back() = '\0';
  std::string result(name.data());
  // The name is for people; what could not be written in the file becomes '-'.
  std::ranges::replace_if(
      result,
      [](char c) {
        return !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                 c == '_' || c == '-');
      },
      '-');
  return result.empty() ? "weir" : result;
}

void read_node(const toml::table& table, NodeConfig& node, Findings& findings) {
  TableReader reader(table, "node", "[node]", findings);
  reader.text("name", node.name);
  if (reader.has("name") && node.name.empty())
    findings.add("node.name", "name must not be empty; leave it out for the host's name");
  reader.integer("keys", keys_range, node.keys);
  reader.boolean("busy_controller", node.busy_controller);
  reader.duration("idle_sleep", node.idle_sleep);
  reader.duration("statistics", node.statistics);
  reader.finish();
}

constexpr std::array store_layouts{StoreLayout::hash, StoreLayout::plain, StoreLayout::exchange};

void read_store(const toml::table& table, StoreConfig& store, Findings& findings) {
  TableReader reader(table, "store", "[store]", findings);
  reader.text("url", store.url);
  reader.duration("timeout", store.timeout);
  reader.duration("reconnect", store.reconnect);
  reader.text("prefix", store.prefix);
  reader.word<StoreLayout>("layout", store_layouts, store.layout);
  reader.integer("backlog", backlog_range, store.backlog);
  reader.text("password_file", store.password_file);
  reader.text("password_env", store.password_env);
  reader.text("ca_file", store.ca_file);
  reader.text("certificate_file", store.certificate_file);
  reader.text("private_key_file", store.private_key_file);
  reader.text("server_name", store.server_name);
  reader.finish();
}

void read_pair(TableReader& reader, const toml::node& node, const std::string& at, PortsConfig& ports) {
  auto& [first, second] = ports.pairs.emplace_back();
  const toml::array* pair = node.as_array();
  if (pair == nullptr || pair->size() != 2) {
    reader.wrong_type(at, "an element of pairs", "two port numbers, such as [0, 1]",
                      pair == nullptr ? type_name(node) : "an array of another size");
    return;
  }
  reader.integer(*pair->get(0), at, "a port in pairs", port_id_range, first);
  reader.integer(*pair->get(1), at, "a port in pairs", port_id_range, second);
}

void read_ports(const toml::table& table, PortsConfig& ports, Findings& findings) {
  TableReader reader(table, "ports", "[ports]", findings);
  reader.array("pairs", "an array of pairs, such as [[0, 1]]",
               [&](const toml::node& node, const std::string& at) { read_pair(reader, node, at, ports); });
  reader.refuse_empty_array("pairs", "pair all ports in order");
  reader.integer("descriptors", descriptors_range, ports.descriptors);
  reader.integer("queues", queues_range, ports.queues);
  reader.integer("mtu", mtu_range, ports.mtu);
  reader.finish();
}

/// The top level: its keys are tables.
class Document {
 public:
  Document(const toml::table& root, Findings& findings) : root_(&root), findings_(&findings) {}

  Config read() {
    Config config;
    config.node.name = host_name();
    if (const toml::table* node = table("node")) read_node(*node, config.node, *findings_);
    if (const toml::table* store = table("store")) read_store(*store, config.store, *findings_);
    if (const toml::table* ports = table("ports")) read_ports(*ports, config.ports, *findings_);
    read_rules(config.rules);
    refuse_unknown();
    return config;
  }

 private:
  const toml::table* table(const std::string& name) {
    const toml::node* node = root_->get(name);
    if (node == nullptr) return nullptr;
    findings_->locate(name, location_of(*node));
    if (node->as_table() == nullptr)
      findings_->add(name, name + " must be a table: write [" + name + "], not " +
                               (node->is_array() ? "[[" + name + "]]" : std::string(type_name(*node))));
    return node->as_table();
  }

  void read_rules(std::vector<Rule>& rules) {
    const toml::node* node = root_->get("rule");
    if (node == nullptr) return;
    findings_->locate("rule", location_of(*node));
    const toml::array* array = node->as_array();
    if (array == nullptr) {
      findings_->add("rule", "rule must be an array of tables: write [[rule]], " + instead_of(*node));
      return;
    }
    for (const toml::node& element : *array) {
      const std::string path = rule_path(rules.size());
      findings_->locate(path, location_of(element));
      if (const toml::table* rule = element.as_table()) {
        rules.push_back(read_rule(*rule, rules.size(), *findings_));
      } else {
        findings_->add(path,
                       "a rule must be a table: write [[rule]], not " + std::string(type_name(element)));
        rules.emplace_back();
      }
    }
  }

  /// Of a rule that is no array.
  std::string instead_of(const toml::node& rule) const {
    const toml::table* table = rule.as_table();
    if (table == nullptr) return "not " + std::string(type_name(rule));
    if (is_dotted(root_->find("rule")->first, rule)) return "and its keys below it without \"rule.\"";
    return table->is_inline() ? "and its keys below it without braces" : "not [rule]";
  }

  static bool is_known(std::string_view name) {
    return std::ranges::find(config_tables, name) != config_tables.end();
  }

  static std::string unknown(std::string_view name, const toml::node& node) {
    const bool is_table = node.is_table() || node.is_array_of_tables();
    const std::string what = (is_table ? "unknown table " : "unknown key ") + in_quotes(name);
    const std::size_t dot = name.find('.');
    if (dot != std::string_view::npos && is_known(name.substr(0, dot)))
      return what + ": in quotes it is one name; write it without them";
    return what + suggestion(name, config_tables, "there are the tables");
  }

  void refuse_unknown() {
    for (const auto& [key, node] : *root_)
      if (!is_known(key.str())) findings_->add_at(location_of(key), unknown(key.str(), node));
  }

  const toml::table* root_;
  Findings* findings_;
};

struct FileCloser {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

std::string system_message(int number) { return std::generic_category().message(number); }

}  // namespace

std::string ConfigError::to_string() const {
  std::string text = file;
  if (line != 0) text += ':' + std::to_string(line) + ':' + std::to_string(column);
  if (!text.empty()) text += ": ";
  return text + message;
}

ConfigResult parse_config(std::string_view text, std::string_view file) {
  if (text.size() > max_file_size) return failure(file, {}, "the configuration is larger than 16 MiB");
  const TomlResult parsed = parse_toml(text);
  if (!parsed) return failure(file, parsed.where, parsed.error);
  Findings findings(file);
  ConfigResult result;
  result.config = Document(parsed.root, findings).read();
  check_values(result.config, findings);
  result.errors = findings.take();
  return result;
}

ConfigResult load_config(const std::string& path) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return failure(path, {}, "cannot open the file: " + system_message(errno));
  std::string text;
  std::array<char, 64 * 1024> piece;
  for (;;) {
    const std::size_t size = std::fread(piece.data(), 1, piece.size(), file.get());
    text.append(piece.data(), size);
    if (text.size() > max_file_size) return failure(path, {}, "the configuration is larger than 16 MiB");
    if (size < piece.size()) break;
  }
  if (std::ferror(file.get()) != 0)
    return failure(path, {}, "cannot read the file: " + system_message(errno));
  return parse_config(text, path);
}

std::vector<ConfigError> check_config(const Config& config) {
  Findings findings;
  check_values(config, findings);
  return findings.take();
}

}  // namespace weir
