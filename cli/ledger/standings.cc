#include "cli/ledger/standings.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "cli/ledger/account_names.h"
#include "cli/ledger/audit.h"
#include "cli/process/paths.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/print_line.h"
#include "cli/terminal/table.h"
#include "coordinator/store/stored_log.h"
#include "ledger/books.h"
#include "ledger/history.h"
#include "ledger/scan.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;
using ledger::Books;
using ledger::Event;

constexpr std::size_t kShortestKey = 8;  // digits of a key with which a user may name it

// A ledger that was read completely and found sound, and the histories of the keys that the user
// may mean.
struct Reading {
  Books books;
  std::map<PublicKey, ledger::History> histories;
  std::map<PublicKey, ledger::Checkpoint> cosigned;  // by witness: the latest
};

// The key that this entry may be the first to name.
const PublicKey* first_named(const ledger::Entry& entry) {
  if (const auto* member = std::get_if<ledger::MemberEntry>(&entry.body)) return &member->key;
  if (const auto* grant = std::get_if<ledger::GrantEntry>(&entry.body)) return &grant->to;
  return nullptr;
}

// `digits`: the first digits of the keys whose histories are wanted; empty: of no key.
Result<Reading> read(ledger::LogFolder& folder, const ledger::ScanOptions& options,
                     const std::string& digits) {
  Reading reading;
  const auto visit = [&](std::uint64_t index, ByteSpan bytes, const Hash256& leaf) -> Status {
    TRY_VOID(reading.books.apply(bytes, leaf));
    if (digits.empty()) return ok_status();
    TRY(const ledger::Entry entry, ledger::parse_entry(bytes));
    const PublicKey* const key = first_named(entry);
    if (key != nullptr && key->hex().starts_with(digits)) reading.histories.try_emplace(*key, *key);
    for (auto& [whose, history] : reading.histories) history.add(index, entry, reading.books);
    return ok_status();
  };
  TRY(const ledger::Scan scan, ledger::scan_log(folder, options, visit));
  REQUIRE(scan.checkpoint.size == 0 || reading.books.cluster() == scan.checkpoint.log,
          "tile/entries: entry 0 names another cluster than the log's key");
  for (const ledger::Checkpoint& one : scan.cosigned) {
    reading.cosigned.emplace(one.cosignatures.front().witness, one);
  }
  return reading;
}

// The one key that the user means. A name takes precedence over digits of a key.
Result<PublicKey> key_of(const std::string& node, const std::map<PublicKey, std::string>& names,
                         const std::vector<PublicKey>& known) {
  for (const auto& [key, name] : names) {
    if (name == node || name == node + kKeyMark) return key;
  }
  const bool digits = node.size() >= kShortestKey &&
                      node.find_first_not_of("0123456789abcdef") == std::string::npos;
  std::vector<PublicKey> found;
  for (const PublicKey& key : known) {
    if (digits && key.hex().starts_with(node)) found.push_back(key);
  }
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    return Error::of(ErrorCode::kNotFound, "several keys begin with ", node, "; pass more digits");
  }
  return Error::of(ErrorCode::kNotFound, "the ledger has no node '", node,
                   "'; `hearth ledger` lists its nodes; a node's key works too");
}

std::string name_of(const PublicKey& key, const std::map<PublicKey, std::string>& names) {
  const auto found = names.find(key);
  return found == names.end() ? key.hex().substr(0, 16) : found->second;
}

std::string percent(std::int64_t ppm) {
  return fmt::format("{:.1f} %", static_cast<double>(ppm) * 100 / ledger::kMillion);
}

std::string_view level_of(const Books& books, const ledger::Standing& standing) {
  if (standing.is_tombstoned()) return "ended";
  return ledger::level_name(standing.level(books.policy(), books.time()));
}

std::int64_t balance_of(const Books& books, const PublicKey& key) {
  return books.balance({ledger::Account::Kind::kSpendable, key});
}

// Accounts that no member of the log has: API keys, and machines that only send prompts.
std::vector<PublicKey> payers(const Books& books) {
  std::vector<PublicKey> found;
  for (const auto& [account, amount] : books.balances()) {
    const bool spends = account.kind == ledger::Account::Kind::kSpendable;
    if (spends && books.standing(account.key) == nullptr) found.push_back(account.key);
  }
  return found;
}

// The wanted number of those, with the highest first.
std::vector<PublicKey> payers(const Books& books, const StandingsOptions& options) {
  std::vector<PublicKey> found = payers(books);
  std::ranges::stable_sort(found, [&](const PublicKey& a, const PublicKey& b) {
    return balance_of(books, a) > balance_of(books, b);
  });
  if (options.most > 0 && found.size() > options.most) found.resize(options.most);
  return found;
}

// The number of the key's windows that are in dispute.
std::uint64_t in_dispute(const Books& books, const PublicKey& key) {
  const std::vector<std::uint64_t> disputes = books.disputes();
  return static_cast<std::uint64_t>(std::ranges::count_if(disputes, [&](std::uint64_t entry) {
    const ledger::Receipt* receipt = books.receipt(entry);
    return receipt != nullptr && receipt->worker == key;
  }));
}

// The number of other nodes of this key's owner.
std::size_t others_of_owner(const Books& books, const PublicKey& key) {
  const std::vector<PublicKey> keys = books.keys();
  const auto owner = books.owner(key);
  return static_cast<std::size_t>(std::ranges::count_if(
      keys, [&](const PublicKey& one) { return one != key && books.owner(one) == owner; }));
}

OrderedJson standing_json(const Reading& reading, const PublicKey& key, const std::string& name) {
  const Books& books = reading.books;
  OrderedJson json = {{"name", name}, {"key", key.hex()}, {"balance", balance_of(books, key)}};
  const auto cosigned = reading.cosigned.find(key);
  json["cosigned"] = cosigned == reading.cosigned.end() ? 0 : cosigned->second.size;
  const ledger::Standing* standing = books.standing(key);
  if (standing == nullptr) return json;
  json["standing"] = level_of(books, *standing);
  json["escrow"] = standing->escrow();
  json["windows_served"] = standing->served();
  json["audited_right"] = standing->audited_right();
  json["faults"] = standing->faults(books.policy(), books.time());
  json["in_dispute"] = in_dispute(books, key);
  json["unjudged"] = books.unjudged(key);
  json["tombstoned"] = standing->is_tombstoned();
  json["owner"] = books.owner(key)->hex();
  if (standing->level(books.policy(), books.time()) == ledger::Level::kNewcomer) {
    json["checks"] = standing->checks();
    json["check_days"] = standing->check_days();
  }
  json["audit_rate_ppm"] = standing->audit_rate(books.policy(), books.time());
  return json;
}

// "served 12 windows (+340 credits)"
std::string sentence(const Event& event) {
  const std::string n = std::to_string(event.count);
  const bool one = event.count == 1;
  const std::string windows = one ? "a window" : n + " windows";
  std::string text;
  switch (event.kind) {
    case Event::Kind::kJoined: text = "joined as a newcomer"; break;
    case Event::Kind::kVouched: text = "joined, vouched for by the cluster"; break;
    case Event::Kind::kChanged: text = "reconnected with another driver, build or address"; break;
    case Event::Kind::kGranted: text = "received a grant"; break;
    case Event::Kind::kPaid: text = "paid for " + windows; break;
    case Event::Kind::kServed: text = "served " + windows; break;
    case Event::Kind::kChecked: text = "checked " + windows + " of others and agreed"; break;
    case Event::Kind::kDisagreed: text = "checked " + windows + " of others and disagreed"; break;
    case Event::Kind::kWasRight: text = "had " + windows + " checked: right"; break;
    case Event::Kind::kWasDoubted: text = "had " + windows + " checked: in dispute"; break;
    case Event::Kind::kFault: text = "was found at fault" + (one ? "" : " " + n + " times"); break;
    case Event::Kind::kFraud: text = "was found a fraud: its escrow was seized"; break;
    case Event::Kind::kEquivocation:
      text = "signed two receipts of one window: its escrow was seized";
      break;
    case Event::Kind::kUnjudged:
      text = "was in " + (one ? "a dispute" : n + " disputes") + " that ended without a verdict";
      break;
    case Event::Kind::kVested: text = "had credit set free from escrow"; break;
  }
  if (event.credits != 0) {
    const char* sign = event.credits > 0 && event.kind != Event::Kind::kVested ? "+" : "";
    text += " (" + (sign + std::to_string(event.credits)) + " credits)";
  }
  return text;
}

void print_node_json(const Reading& reading, const PublicKey& key, const std::string& name,
                     const ledger::History& history) {
  OrderedJson out = standing_json(reading, key, name);
  out["history"] = OrderedJson::array();
  for (const Event& event : history.events()) {
    out["history"].push_back({{"time", event.time},
                              {"entry", event.entry},
                              {"event", ledger::event_name(event.kind)},
                              {"count", event.count},
                              {"credits", event.credits}});
  }
  out["history_forgotten"] = history.forgotten();
  print_escaped(out);
}

void print_node(const Reading& reading, const PublicKey& key, const std::string& name, bool json) {
  const Books& books = reading.books;
  const auto found = reading.histories.find(key);
  const ledger::History history =
      found == reading.histories.end() ? ledger::History(key) : found->second;
  if (json) return print_node_json(reading, key, name, history);
  print_line("{}  {}", escape_control(name), key.hex());
  if (const ledger::Standing* standing = books.standing(key)) {
    print_line("  standing  {}", level_of(books, *standing));
    print_line("  audits    {} of its windows were right; {} are checked; faults that count: {}",
               standing->audited_right(),
               percent(standing->audit_rate(books.policy(), books.time())),
               standing->faults(books.policy(), books.time()));
    if (const std::uint64_t open = in_dispute(books, key); open > 0) {
      print_line(
          "  disputes  {} of its windows: an auditor has another result, and there is no verdict "
          "yet",
          open);
    }
    if (const std::uint64_t ended = books.unjudged(key); ended > 0) {
      print_line("  unjudged  {} of this node ended without a verdict", counted(ended, "dispute"));
    }
    if (standing->is_tombstoned()) {
      print_line("  banned    for fraud or equivocation: it neither serves nor audits again");
    }
    if (const std::size_t others = others_of_owner(books, key); others > 0) {
      print_line("  owner     {} has {}: these nodes do not audit each other",
                 books.owner(key)->hex().substr(0, 16), counted(others, "other node"));
    }
    if (standing->level(books.policy(), books.time()) == ledger::Level::kNewcomer) {
      print_line("  dues      checked {} of {} windows, on {} of {} days", standing->checks(),
                 books.policy().newcomer_audits, standing->check_days(),
                 books.policy().newcomer_days);
    }
    print_line("  served    {}", counted(standing->served(), "window"));
    print_line("  escrow    {} credits", standing->escrow());
  } else {
    print_line("  standing  none: it has not served or checked");
  }
  print_line("  balance   {} credits", balance_of(books, key));
  if (const auto witness = reading.cosigned.find(key); witness != reading.cosigned.end()) {
    const ledger::Checkpoint& latest = witness->second;
    print_line("  cosigned  {} of {} entries, at {}", latest.size, books.entries(),
               date_text(static_cast<std::int64_t>(latest.cosignatures.front().time)));
  }
  if (history.forgotten() > 0) print_line("  earlier   {}", counted(history.forgotten(), "event"));
  for (const Event& event : history.events()) {
    print_line("  {}  {}", date_text(event.time), sentence(event));
  }
}

void print_all(const Reading& reading, const std::map<PublicKey, std::string>& names,
               const StandingsOptions& options) {
  const Books& books = reading.books;
  std::vector<PublicKey> keys = books.keys();
  std::ranges::stable_sort(keys, [&](const PublicKey& a, const PublicKey& b) {
    if (!options.by_work) return name_of(a, names) < name_of(b, names);
    return books.standing(a)->served() > books.standing(b)->served();
  });
  if (options.most > 0 && keys.size() > options.most) keys.resize(options.most);
  if (options.json) {
    OrderedJson nodes = OrderedJson::array();
    for (const PublicKey& key : keys)
      nodes.push_back(standing_json(reading, key, name_of(key, names)));
    OrderedJson accounts = OrderedJson::array();
    for (const PublicKey& key : payers(books, options)) {
      accounts.push_back(standing_json(reading, key, name_of(key, names)));
    }
    const OrderedJson out = {{"cluster", books.cluster().hex()},
                             {"entries", books.entries()},
                             {"time", books.time()},
                             {"in_circulation", -books.balance({})},
                             {"open_disputes", books.disputes().size()},
                             {"unjudged_disputes", books.audits().unjudged},
                             {"nodes", std::move(nodes)},
                             {"accounts", std::move(accounts)}};
    return print_escaped(out);
  }
  const auto print_payers = [&] {
    for (const PublicKey& key : payers(books, options)) {
      print_line("{} has {} credits to spend", escape_control(name_of(key, names)),
                 balance_of(books, key));
    }
  };
  if (keys.empty()) {
    print_line("no node has served or audited yet");
    return print_payers();
  }
  Table table({"NODE", "STANDING", "SERVED", "RIGHT", "FAULTS", "AUDITED", "ESCROW", "BALANCE"});
  for (const PublicKey& key : keys) {
    const ledger::Standing& standing = *books.standing(key);
    table.add({name_of(key, names), std::string(level_of(books, standing)),
               std::to_string(standing.served()), std::to_string(standing.audited_right()),
               std::to_string(standing.faults(books.policy(), books.time())),
               percent(standing.audit_rate(books.policy(), books.time())),
               std::to_string(standing.escrow()), std::to_string(balance_of(books, key))});
  }
  for (const std::string& line : table.lines()) print_line("{}", line);
  if (const std::size_t open = books.disputes().size(); open + books.audits().unjudged > 0) {
    print_line("disputes: {} open, {} ended without a verdict", open, books.audits().unjudged);
  }
  print_payers();
}

// Faults of the log are kInvalidInput here, and no other error is.
Status show(const StandingsOptions& options, const ledger::ScanOptions& scan,
            const std::string& data, ledger::LogFolder& folder) {
  TRY(const ledger::Checkpoint checkpoint, ledger::read_checkpoint(folder));
  const auto names = account_names(data, checkpoint.log);
  if (options.node.empty()) {
    TRY(const Reading reading, read(folder, scan, ""));
    print_all(reading, names, options);
    return ok_status();
  }
  // Names are known before the log is read; only the log completes the first digits of a key.
  const auto named = key_of(options.node, names, {});
  const bool digits = options.node.size() >= kShortestKey;
  TRY(const Reading reading,
      read(folder, scan, named ? named->hex() : (digits ? options.node : "")));
  std::vector<PublicKey> known = reading.books.keys();
  for (const PublicKey& payer : payers(reading.books)) known.push_back(payer);
  TRY(const PublicKey key, key_of(options.node, names, known));
  print_node(reading, key, name_of(key, names), options.json);
  return ok_status();
}

}  // namespace

int run_standings(const StandingsOptions& options) {
  const auto key = log_key(options.key);
  if (!key) return fail(key.error());
  const std::string data = data_folder(options.folder);
  const std::string path = log_folder(data);
  auto folder = coordinator::open_log_to_read(data, path, options.archive);
  if (!folder) return fail(folder.error());
  const Status shown = show(options, {*key, std::nullopt}, data, **folder);
  if (shown.ok()) return kExitDone;
  if (shown.error().code != ErrorCode::kInvalidInput) return fail(shown.error());
  return not_proved("the log in " + path + " is not sound: " + shown.error().message +
                        "\n`hearth audit` names the fault",
                    "", false);
}

}  // namespace hearth::cli
