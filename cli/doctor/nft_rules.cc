#include "cli/doctor/nft_rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace hearth::cli {
namespace {

using Json = nlohmann::json;

constexpr unsigned kDepth = 16;               // of jumps, as the kernel has it
constexpr unsigned kSteps = 100'000;          // rules that are looked at for one port
constexpr unsigned kNesting = 8;              // of values
constexpr std::uint64_t kDialsFrom = 32'768;  // ports of those who dial (Linux, others' are above)
constexpr std::uint64_t kDialsTo = 65'535;
constexpr std::uint64_t kTcp = 6;  // of IANA's protocol numbers

const Json& at(const Json& object, const char* key) {
  static const Json kNothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNothing;
}

std::string text_at(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

bool one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* each) { return word == each; });
}

}  // namespace

// From JSON to what NftRuleset keeps.
class NftReader {
 public:
  explicit NftReader(NftRuleset& out) : out_(out) {}

  void read(const Json& objects) {
    for (const Json& object : objects) {
      read_set(at(object, "set"));
      read_chain(at(object, "chain"));
    }
    for (const Json& object : objects) read_rule(at(object, "rule"));
  }

 private:
  using Match = NftRuleset::Match;
  using Action = NftRuleset::Action;
  using Rule = NftRuleset::Rule;

  static std::optional<NftChain> place(const Json& object, const char* name) {
    NftChain chain{text_at(object, "family"), text_at(object, "table"), text_at(object, name)};
    if (!one_of(chain.family, {"inet", "ip"}) || chain.name.empty()) return std::nullopt;
    return chain;
  }

  void read_set(const Json& set) {
    if (const auto here = place(set, "name")) sets_[*here] = at(set, "elem");
  }

  void read_chain(const Json& chain) {
    const auto here = place(chain, "name");
    if (!here) return;
    NftRuleset::Chain& made = out_.chains_[*here];
    made.base = text_at(chain, "hook") == "input" && text_at(chain, "type") == "filter";
    made.drops = text_at(chain, "policy") == "drop";
  }

  void read_rule(const Json& rule) {
    const auto here = place(rule, "chain");
    if (!here) return;
    table_ = {here->family, here->table, ""};
    std::vector<Rule> made(1);
    for (const Json& statement : at(rule, "expr")) {
      if (!statement.is_object() || statement.size() != 1) continue;
      read_statement(statement.begin().key(), statement.begin().value(), made);
    }
    auto& rules = out_.chains_[*here].rules;
    std::move(made.begin(), made.end(), std::back_inserter(rules));
  }

  // A map of verdicts makes a rule of each of its entries; `made.front()` has the conditions.
  void read_statement(const std::string& kind, const Json& value, std::vector<Rule>& made) {
    Rule& rule = made.front();
    if (kind == "match") {
      const std::string op = text_at(value, "op");
      if (!one_of(op, {"==", "!=", "in"})) return lower(rule, Match::kMaybe);
      return add_condition(at(value, "left"), at(value, "right"), op == "!=", rule);
    }
    if (kind == "vmap") return read_map(value, made);
    const auto [action, target] = verdict(kind, value);
    if (action != Action::kNone) {
      rule.action = action;
      rule.target = target;
    } else if (!one_of(kind, {"counter", "log"})) {
      lower(rule, Match::kMaybe);
    }
  }

  void read_map(const Json& value, std::vector<Rule>& made) {
    const Rule common = made.front();
    const Json& entries = at(at(value, "data"), "set");
    if (!entries.is_array()) {  // a named one, whose verdicts are not looked up
      made.front().action = Action::kUnknown;
      return;
    }
    made.clear();
    for (const Json& entry : entries) {
      if (!entry.is_array() || entry.size() != 2 || !entry[1].is_object() || entry[1].size() != 1) {
        continue;
      }
      Rule rule = common;
      add_condition(at(value, "key"), entry[0], false, rule);
      std::tie(rule.action, rule.target) =
          verdict(entry[1].begin().key(), entry[1].begin().value());
      made.push_back(std::move(rule));
    }
    if (made.empty()) made.emplace_back();
  }

  static std::pair<Action, std::string> verdict(const std::string& kind, const Json& value) {
    if (kind == "accept") return {Action::kAccept, ""};
    if (kind == "drop" || kind == "reject") return {Action::kDrop, ""};
    if (kind == "return") return {Action::kReturn, ""};
    if (kind == "jump") return {Action::kJump, text_at(value, "target")};
    if (kind == "goto") return {Action::kGoto, text_at(value, "target")};
    if (kind == "queue") return {Action::kUnknown, ""};
    return {Action::kNone, ""};
  }

  static void lower(Rule& rule, Match match) { rule.rest = std::min(rule.rest, match); }

  void add_condition(const Json& left, const Json& right, bool otherwise, Rule& rule) {
    std::vector<Json> values;
    const bool known = flatten(right, values, 0);
    const Json& payload = at(left, "payload");
    const std::string protocol = text_at(payload, "protocol");
    if (one_of(protocol, {"tcp", "th"}) && text_at(payload, "field") == "dport" && known) {
      NftRuleset::Ports ports;
      ports.outside = otherwise;
      if (add_ports(values, ports)) return rule.ports.push_back(std::move(ports));
    }
    const Match match = known ? judge(left, protocol, values) : Match::kMaybe;
    if (match == Match::kMaybe || !otherwise) return lower(rule, match);
    lower(rule, match == Match::kYes ? Match::kNo : Match::kYes);
  }

  // Of a new TCP connection that another machine begins.
  static Match judge(const Json& left, const std::string& protocol,
                     const std::vector<Json>& values) {
    const auto has = [&](const Json& value) {
      return std::find(values.begin(), values.end(), value) != values.end();
    };
    const auto is = [](bool yes) { return yes ? Match::kYes : Match::kNo; };
    const std::string meta = text_at(at(left, "meta"), "key");
    if (meta == "l4proto" ||
        (protocol == "ip" && text_at(at(left, "payload"), "field") == "protocol")) {
      return is(has("tcp") || has(kTcp));
    }
    if (one_of(meta, {"iif", "iifname"})) {
      return values == std::vector<Json>{"lo"} ? Match::kNo : Match::kMaybe;
    }
    if (meta == "nfproto") return is(has("ipv4"));
    if (one_of(protocol, {"tcp", "th"}) && text_at(at(left, "payload"), "field") == "sport") {
      return judge_source(values);
    }
    if (text_at(at(left, "ct"), "key") == "state") return is(has("new"));
    // Another protocol's header; tcp's and ip's own have more than is known here.
    const bool other = !protocol.empty() && !one_of(protocol, {"tcp", "th", "ip", "ip6", "ether"});
    return other ? Match::kNo : Match::kMaybe;
  }

  // Whoever dials has any port of those that systems give out.
  static Match judge_source(const std::vector<Json>& values) {
    NftRuleset::Ports ports;
    if (!add_ports(values, ports)) return Match::kMaybe;
    Match match = Match::kNo;
    for (const auto& [first, last] : ports.ranges) {
      if (first <= kDialsFrom && kDialsTo <= last) return Match::kYes;
      if (first <= kDialsTo && kDialsFrom <= last) match = Match::kMaybe;
    }
    return match;
  }

  // One value, or all of a set, a list, or a named set of the rule's table. False: of a kind that
  // is not known here.
  bool flatten(const Json& value, std::vector<Json>& out, unsigned depth) const {
    if (depth > kNesting) return false;
    if (value.is_array()) {
      return std::all_of(value.begin(), value.end(),
                         [&](const Json& each) { return flatten(each, out, depth + 1); });
    }
    if (value.is_object()) {
      if (value.contains("range")) return out.push_back(value), true;
      for (const char* key : {"set", "|"}) {
        if (value.contains(key)) return flatten(value[key], out, depth + 1);
      }
      return value.contains("elem") && flatten(at(value["elem"], "val"), out, depth + 1);
    }
    if (value.is_string() && value.get_ref<const std::string&>().starts_with('@')) {
      NftChain name = table_;
      name.name = value.get<std::string>().substr(1);
      const auto found = sets_.find(name);
      return found != sets_.end() && found->second.is_array() &&
             flatten(found->second, out, depth + 1);
    }
    out.push_back(value);
    return value.is_string() || value.is_number_unsigned();
  }

  static bool add_ports(const std::vector<Json>& values, NftRuleset::Ports& ports) {
    for (const Json& value : values) {
      const Json& range = at(value, "range");
      if (value.is_number_unsigned()) {
        ports.ranges.emplace_back(value.get<std::uint64_t>(), value.get<std::uint64_t>());
      } else if (range.is_array() && range.size() == 2 && range[0].is_number_unsigned() &&
                 range[1].is_number_unsigned()) {
        ports.ranges.emplace_back(range[0].get<std::uint64_t>(), range[1].get<std::uint64_t>());
      } else {
        return false;
      }
    }
    return true;
  }

  NftRuleset& out_;
  std::map<NftChain, Json> sets_;
  NftChain table_;  // of the rule that is read; no name
};

// One connection's way.
struct NftRuleset::Walk {
  std::uint16_t port = 0;
  bool perhaps = false;  // some rule may have let it in
  unsigned steps = 0;
};

Result<NftRuleset> NftRuleset::parse(std::string_view json) {
  REQUIRE(json.size() <= kBytesMax,
          "the ruleset is longer than " + std::to_string(kBytesMax) + " bytes");
  const Json all = Json::parse(json, nullptr, false);
  const Json& objects = at(all, "nftables");
  REQUIRE(objects.is_array(), "the ruleset has no list \"nftables\"");
  NftRuleset out;
  NftReader(out).read(objects);
  return out;
}

bool NftRuleset::drops() const {
  const bool sees = std::any_of(chains_.begin(), chains_.end(),
                                [](const auto& each) { return each.second.base; });
  return sees && std::any_of(chains_.begin(), chains_.end(), [](const auto& each) {
           const auto& [name, chain] = each;
           return (chain.base && chain.drops) ||
                  std::any_of(chain.rules.begin(), chain.rules.end(),
                              [](const Rule& rule) { return rule.action == Action::kDrop; });
         });
}

std::optional<NftChain> NftRuleset::closes(std::uint16_t port) const {
  for (const auto& [name, chain] : chains_) {
    if (!chain.base) continue;
    Walk way{port};
    const Action end = walk(name, way, 0);
    const bool dropped = end == Action::kDrop || (end == Action::kNone && chain.drops);
    if (dropped && !way.perhaps) return name;
  }
  return std::nullopt;
}

NftRuleset::Match NftRuleset::match(const Rule& rule, std::uint16_t port) {
  const bool named = std::all_of(rule.ports.begin(), rule.ports.end(), [&](const Ports& ports) {
    const bool inside =
        std::any_of(ports.ranges.begin(), ports.ranges.end(),
                    [&](const auto& range) { return range.first <= port && port <= range.second; });
    return inside != ports.outside;
  });
  return named ? rule.rest : Match::kNo;
}

// kAccept, kDrop, or kNone: the chain's end.
NftRuleset::Action NftRuleset::walk(const NftChain& place, Walk& way, unsigned depth) const {
  const auto chain = chains_.find(place);
  if (chain == chains_.end() || depth > kDepth) return Action::kNone;
  for (const Rule& rule : chain->second.rules) {
    if (++way.steps > kSteps) {
      way.perhaps = true;
      return Action::kNone;
    }
    const Match matches = match(rule, way.port);
    if (matches == Match::kNo || rule.action == Action::kNone) continue;
    Action action = rule.action;
    const bool jumps = action == Action::kJump || action == Action::kGoto;
    if (jumps) action = walk({place.family, place.table, rule.target}, way, depth + 1);
    if (action == Action::kUnknown || (matches == Match::kMaybe && action == Action::kAccept)) {
      way.perhaps = true;
    }
    if (matches == Match::kMaybe || action == Action::kUnknown) continue;
    if (action == Action::kAccept || action == Action::kDrop) return action;
    if (action == Action::kReturn || rule.action == Action::kGoto) return Action::kNone;
  }
  return Action::kNone;
}

}  // namespace hearth::cli
