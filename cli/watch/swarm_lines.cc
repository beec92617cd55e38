#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/limits.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/table.h"
#include "cli/watch/watch.h"

namespace hearth::cli {
namespace {

constexpr std::uint32_t kBarColumns = 10;

std::string rate(double per_second) {
  return fmt::format("{:.{}f}", per_second, per_second >= 99.95 ? 0 : 1);
}

std::string percentage(double share) {
  return fmt::format("{:.0f}%", 100.0 * std::clamp(share, 0.0, 1.0));
}

std::string rates_text(const client::SwarmView& view) {
  const std::string most =
      view.running_most > 0 ? " of at most " + std::to_string(view.running_most) : "";
  return rate(view.prompt_tokens_per_second) + " tokens/s in, " + rate(view.tokens_per_second) +
         " out; " + counted(view.running, "request") + " running" + most + ", " +
         std::to_string(view.waiting) + " waiting";
}

// "▕███   ▏": the part from `begin` to `end` of something of length 1.
std::string bar(double begin, double end) {
  const auto cell = [](double share) {
    return static_cast<std::uint32_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBarColumns));
  };
  std::string text = "▕";
  for (std::uint32_t i = 0; i < kBarColumns; ++i) {
    text += i >= cell(begin) && i < cell(end) ? "█" : " ";
  }
  return text + "▏";
}

std::string kv_text(const client::NodeView& node) {
  if (node.kv_tokens == 0) return "-";
  const double share =
      static_cast<double>(node.kv_tokens_used) / static_cast<double>(node.kv_tokens);
  std::string text =
      bar(0.0, share) + " " + percentage(share) + " of " + std::to_string(node.kv_tokens);
  if (node.kv_tokens_kept > 0) text += ", " + std::to_string(node.kv_tokens_kept) + " cached";
  return text;
}

// The stage with the least room decides, because a prompt is cached only as far as all stages have
// it.
void add_kv(const client::SwarmView& view, Lines& lines) {
  const client::NodeView* least = nullptr;
  for (const client::NodeView& node : view.nodes) {
    if (!node.placed || node.kv_tokens == 0 || !node.beside.empty()) continue;
    if (least == nullptr || node.kv_tokens < least->kv_tokens) least = &node;
  }
  if (least == nullptr || least->kv_tokens_kept == 0) return;
  lines.push_back(message_of("kv      ", least->kv_tokens_used, " of ",
                             counted(least->kv_tokens, "position"), " in use, ",
                             least->kv_tokens_kept, " cached for prompts that begin alike"));
}

// "drafts  lookup 450 of 496 accepted, model 12 of 40 accepted", then the memory that each node
// keeps for a draft model.
void add_drafts(const client::SwarmView& view, Lines& lines) {
  std::string text;
  for (const client::SwarmView::Drafts& one : view.drafts) {
    if (one.drafted == 0) continue;
    text += text.empty() ? "drafts  " : ", ";
    text +=
        message_of(escape_control(one.kind), " ", one.accepted, " of ", one.drafted, " accepted");
  }
  if (!text.empty()) lines.push_back(text);
  for (const client::NodeView& node : view.nodes) {
    if (node.draft_bytes == 0) continue;
    lines.push_back("draft   " + escape_control(node.name) + ": " + format_bytes(node.draft_bytes) +
                    " of memory for a draft model");
  }
}

// "power   412 W of 3 of 4 nodes; 13.5 J a token".
void add_power(const client::SwarmView& view, Lines& lines) {
  if (view.power_nodes == 0) return;
  std::string line = fmt::format("power   {:.0f} W of {}", view.watts, view.power_nodes);
  line += view.power_nodes < view.nodes.size() ? " of " + counted(view.nodes.size(), "node")
                                               : (view.power_nodes == 1 ? " node" : " nodes");
  if (view.tokens_per_second > 0.0) {
    line += "; " + rate(view.watts / view.tokens_per_second) + " J a token";
  }
  lines.push_back(line);
}

std::string layers_text(const client::NodeView& node) {
  if (!node.placed) return "-";
  return text_of(node.layers) + (node.beside.empty() ? "" : " of " + node.beside);
}

std::string layers_bar(const client::NodeView& node, std::uint32_t layers) {
  if (!node.placed || layers == 0) return "-";
  if (!node.beside.empty()) return layers_text(node);
  return bar(static_cast<double>(node.layers.begin) / layers,
             static_cast<double>(node.layers.end) / layers) +
         " " + text_of(node.layers);
}

void add_table(const Lines& table, Lines& lines) {
  lines.insert(lines.end(), table.begin(), table.end());
}

// The cards, with what their sensors say.
void add_cards(const client::SwarmView& view, Lines& lines) {
  Table table({"NODE", "CARD", "SENSORS"});
  bool any = false;
  for (const client::NodeView& node : view.nodes) {
    if (node.device.empty()) continue;
    const std::string reading = text_of(node.card);
    table.add({node.name, node.device, reading.empty() ? "-" : reading});
    any = true;
  }
  if (any) add_table(table.lines(), lines);
}

void add_slow(const client::SwarmView& view, Lines& lines) {
  for (const client::NodeView& node : view.nodes) {
    if (node.slow.empty()) continue;
    lines.push_back("slow    " + escape_control(node.name) + ": " + escape_control(node.slow));
  }
}

// Why no prompt would be answered, and what to add; or why a worker has nothing to do.
void add_why(const client::SwarmView& view, Lines& lines) {
  if (view.ready) {
    const auto free =
        std::count_if(view.nodes.begin(), view.nodes.end(), [](const client::NodeView& node) {
          return node.state == "free" && node.newcomer.empty() && node.barred.empty();
        });
    if (free > 0 && view.stages_wanted > 0) {
      std::uint32_t ranks = 1;
      for (const client::NodeView& node : view.nodes) ranks = std::max(ranks, node.ranks);
      lines.push_back("spare   " + counted(static_cast<std::size_t>(free), "worker") +
                      "; one more pipeline takes " + std::to_string(view.stages_wanted * ranks));
    }
    for (const client::NodeView& node : view.nodes) {
      if (node.spare.empty() || !node.barred.empty()) continue;
      lines.push_back("spare   " + escape_control(node.name) + ": " + escape_control(node.spare));
    }
    for (const client::NodeView& node : view.nodes) {
      if (node.newcomer.empty()) continue;
      lines.push_back(escape_control(node.name) +
                      " is a newcomer: " + escape_control(node.newcomer));
    }
    return;
  }
  if (!view.missing.empty()) lines.push_back("why     " + escape_control(view.missing));
  for (const client::GapView& gap : view.gaps) {
    std::string line = "        no node for layers " + text_of(gap.layers);
    if (gap.memory_bytes > 0) {
      line += ": it needs " + format_bytes(gap.memory_bytes) + " of memory at least, " +
              format_bytes(gap.weight_bytes) + " of them for weights";
    }
    lines.push_back(std::move(line));
  }
  if (!view.gaps.empty()) {
    lines.push_back("add     " + counted(view.gaps.size(), "worker") +
                    (view.gaps.size() == 1 ? ", with: " : ", each with: ") +
                    (view.joinable ? "hearth join TOKEN"
                                   : "hearth worker --model " + escape_control(view.model)));
    if (view.joinable) {
      lines.push_back("        on the machine to add; on the server's: hearth token create");
    }
  }
}

// Nodes that others report as senders of wrong bytes. A report may itself be false.
void add_wrong(const client::SwarmView& view, Lines& lines) {
  for (const client::AccusedView& one : view.accused) {
    lines.push_back(
        "wrong   " + escape_control(one.node) +
        ": it sent wrong bytes of the model, as reported by " + counted(one.accusers, "node") +
        " (" + escape_control(one.item) + "); " +
        (one.out ? "no node fetches from it until it restarts" : "these nodes fetch elsewhere"));
  }
}

// The links that one side cannot dial.
void add_routes(const client::SwarmView& view, Lines& lines) {
  for (const client::LinkView& link : view.links) {
    if (link.route == "direct") continue;
    std::string text = "link    " + escape_control(link.from) + " to " + escape_control(link.to) +
                       ": " +
                       (link.route == "relayed"
                            ? "relayed by " + (link.relay.empty() ? std::string("the coordinator")
                                                                  : escape_control(link.relay))
                        : link.route == "reverse" ? "direct, opened by " + escape_control(link.to)
                                                  : escape_control(link.route));
    if (link.bytes_per_second > 0.0) {
      text += ", " + fmt::format("{:.1f}", link.seconds * 1e3) + " ms, " +
              format_bytes(static_cast<std::uint64_t>(link.bytes_per_second)) + "/s";
    }
    lines.push_back(text);
  }
}

bool is_ended(const client::NodeView& node) { return node.standing && node.standing->tombstoned; }

// Nodes that the ledger bars, or may bar; the reason, and what to do next.
void add_barred(const client::SwarmView& view, Lines& lines) {
  for (const client::NodeView& node : view.nodes) {
    const std::string name = escape_control(node.name);
    if (!node.barred.empty()) {
      lines.push_back("barred  " + name + ": " + escape_control(node.barred));
      lines.push_back(is_ended(node)
                          ? "        remove it: hearth nodes rm " + name
                          : "        until it is repaired; on its machine: hearth doctor");
    }
    if (!node.standing || node.standing->disputes == 0) continue;
    lines.push_back("dispute " + name + " is involved in " +
                    counted(node.standing->disputes, "open dispute") +
                    ": two results for one window, and no verdict yet");
    lines.push_back("        its history: hearth ledger " + name +
                    "; hearth logs says why, if it stays undecided");
  }
}

// Whether audits and standing mean anything: machines of one owner in one pipeline do not check
// each other, and the user need not be told.
bool shows_trust(const client::SwarmView& view) {
  const client::AuditsView& audits = view.audits;
  std::set<std::string> owners;
  bool trouble = audits.disputed + audits.open_disputes + audits.ended_disputes > 0;
  for (const client::NodeView& node : view.nodes) {
    owners.insert(node.owner);
    trouble = trouble || !node.newcomer.empty() || !node.barred.empty();
    if (!node.standing) continue;
    const client::NodeView::Standing& one = *node.standing;
    trouble = trouble || one.faults > 0 || one.disputes > 0 || one.tombstoned;
  }
  return view.pipelines > 1 || owners.size() > 1 || trouble;
}

// Nothing before the first audit has ended. Disputes are counted in the log, everything else since
// this server started.
void add_audits(const client::SwarmView& view, Lines& lines) {
  const client::AuditsView& audits = view.audits;
  const std::uint64_t disputes =
      audits.open_disputes + audits.ended_disputes + audits.unjudged_disputes;
  const bool any = audits.agreed + audits.disputed + audits.missed + disputes > 0;
  if (any) {
    lines.push_back(
        message_of("audits  since the server started: ", counted(audits.agreed, "window"),
                   (audits.agreed == 1 ? " agrees, " : " agree, "), audits.disputed,
                   (audits.disputed == 1 ? " differs, " : " differ, "), audits.missed,
                   (audits.missed == 1 ? " was given up" : " were given up")));
    if (disputes > 0) {
      lines.push_back(message_of("        disputes in the ledger: ", audits.open_disputes,
                                 " open, ", audits.ended_disputes, " ended by a verdict"));
    }
    if (audits.unjudged_disputes > 0) {
      lines.back() += ", " + std::to_string(audits.unjudged_disputes) + " ended without one";
    }
  }
  if (audits.waiting > 0 && any && shows_trust(view)) {
    lines.push_back("        " + counted(audits.waiting, "window") +
                    (audits.waiting == 1 ? " waits: " : " wait: ") +
                    escape_control(audits.why_waiting));
  }
  if (audits.referee_missed > 0) {
    lines.push_back("referee " + counted(audits.referee_missed, "window") +
                    " drawn for this server's own referee not computed: " +
                    escape_control(audits.why_referee_missed));
  }
}

// Windows without a receipt, with the API key that requested most of them and the nodes that caused
// them.
void add_unreceipted(const client::SwarmView& view, Lines& lines) {
  const client::AuditsView& audits = view.audits;
  if (audits.unreceipted > 0) {
    lines.push_back("missing " + counted(audits.unreceipted, "window") +
                    " without a receipt since the server started: neither audited nor paid");
    const auto most = std::ranges::max_element(audits.unreceipted_by_key, {},
                                               [](const auto& one) { return one.second; });
    if (most != audits.unreceipted_by_key.end()) {
      lines.push_back("        most of them, " + std::to_string(most->second) +
                      ", of API key: " + escape_control(most->first));
    }
  }
  for (const client::NodeView& node : view.nodes) {
    if (node.unreceipted_windows == 0 && node.unreceipted.empty()) continue;
    lines.push_back("missing " + escape_control(node.name) + ": no receipt for " +
                    counted(node.unreceipted_windows, "window") +
                    (node.unreceipted.empty() ? "" : "; " + escape_control(node.unreceipted)));
  }
}

void add_ledger(const client::SwarmView& view, Lines& lines) {
  if (view.ledger_ahead_seconds > client::kLedgerAheadSeconds) {
    lines.push_back("ledger  its time is " + std::to_string(view.ledger_ahead_seconds) +
                    " s ahead of the server's clock, which is wrong or was ahead once; receipts "
                    "use the ledger's time");
  }
  if (view.ledger_free_bytes && *view.ledger_free_bytes < limits::kLogFreeBytes) {
    lines.push_back(
        "ledger  its disk has " + format_bytes(*view.ledger_free_bytes) +
        " left; when it is full, answers have no receipts: make room (hearth ledger archive)");
  }
  if (!view.ledger_fault.empty()) {
    lines.push_back("ledger  answers have no receipts until the server restarts: " +
                    escape_control(view.ledger_fault));
  }
  if (view.credits) {
    const client::SwarmView::Credits& own = *view.credits;
    lines.push_back("credits the server's machine has " + std::to_string(own.balance) +
                    (own.reserved > 0 ? ", of which " + std::to_string(own.reserved) +
                                            " are reserved for running requests"
                                      : "") +
                    "; all accounts: hearth ledger");
  }
}

void add_store(const client::SwarmView& view, Lines& lines) {
  if (view.store) lines.push_back("store   " + escape_control(client::store_text(*view.store)));
}

std::string cluster_line(const client::SwarmView& view) {
  return view.cluster.empty() ? "" : "  in cluster " + escape_control(view.cluster);
}

// Nodes that only an order of their owner keeps from serving, and how the order ends.
void add_away(const client::SwarmView& view, Lines& lines) {
  for (const client::NodeView& node : view.nodes) {
    if (!node.away || node.away->until > 0 || !node.away->why.starts_with("hearth ")) continue;
    lines.push_back("away    " + escape_control(node.name) +
                    ": to serve again, on its machine: hearth resume");
  }
}

void add_remarks(const client::SwarmView& view, Lines& lines) {
  for (const auto add : {add_why, add_away, add_slow, add_routes, add_wrong, add_barred, add_audits,
                         add_unreceipted, add_ledger, add_store}) {
    add(view, lines);
  }
}

// "paused until 2026-03-01 14:05 (hearth pause)".
std::string away_text(const client::NodeView& node) {
  const char* const drain = node.placed ? "draining" : "drained";
  std::string text = node.away->drain ? drain : "paused";
  if (node.away->until > 0) text += " until " + date_text(node.away->until);
  if (!node.away->why.empty()) text += " (" + escape_control(node.away->why) + ")";
  return node.state == "paused" ? text : node.state + ", " + text;
}

// "loading, has 62%" while layers come.
std::string state_text(const client::NodeView& node) {
  if (node.away) return away_text(node);
  if (!node.barred.empty()) return node.state + (is_ended(node) ? ", ended" : ", quarantined");
  if (node.held_bytes >= node.held_total) return node.state;
  const double share = static_cast<double>(node.held_bytes) / static_cast<double>(node.held_total);
  return node.state + ", has " + percentage(share);
}

// "regular, 84 right, 1 fault".
std::string standing_text(const client::NodeView& node) {
  if (!node.standing) return "-";
  const client::NodeView::Standing& one = *node.standing;
  if (one.tombstoned) return "ended: it lied";
  std::string text = one.level + ", " + std::to_string(one.audited_right) + " right";
  if (one.faults > 0) text += ", " + counted(one.faults, "fault");
  if (one.disputes > 0) text += ", in dispute";
  return text;
}

// One row a node; with its standing, where the ledger names any of them, and its owner likewise.
class NodeTable {
 public:
  NodeTable(const client::SwarmView& view, std::vector<std::string> head)
      : standings_(shows_trust(view) && std::ranges::any_of(view.nodes,
                                                            [](const client::NodeView& node) {
                                                              return node.standing.has_value();
                                                            })),
        owners_(std::ranges::any_of(
            view.nodes, [](const client::NodeView& node) { return !node.owner.empty(); })),
        table_(with(std::move(head), "STANDING", "OWNER")) {}
  void add(const client::NodeView& node, std::vector<std::string> cells) {
    table_.add(with(std::move(cells), standing_text(node), node.owner.empty() ? "-" : node.owner));
  }
  Lines lines() const { return table_.lines(); }

 private:
  std::vector<std::string> with(std::vector<std::string> cells, std::string standing,
                                std::string owner) const {
    if (standings_) cells.push_back(std::move(standing));
    if (owners_) cells.push_back(std::move(owner));
    return cells;
  }
  bool standings_;
  bool owners_;
  Table table_;
};

// "2", or "2, rank 1 of 4" where a group computes the stage.
std::string stage_text(const client::NodeView& node) {
  if (!node.placed) return "-";
  std::string text = std::to_string(node.stage + 1);
  if (node.ranks < 2) return text;
  return text + ", rank " + std::to_string(node.rank + 1) + " of " + std::to_string(node.ranks);
}

}  // namespace

Lines status_lines(const client::SwarmView& view) {
  Lines lines = {"model   " + escape_control(view.model) + "  (" + std::to_string(view.layers) +
                     " layers, " + format_bytes(view.model_bytes) + ")" + cluster_line(view),
                 std::string("ready   ") + (view.ready ? "yes" : "no"),
                 "rates   " + rates_text(view)};
  add_kv(view, lines);
  add_drafts(view, lines);
  add_power(view, lines);
  add_remarks(view, lines);
  NodeTable table(view, {"NODE", "STATE", "STAGE", "LAYERS", "ISA", "THREADS", "WEIGHTS", "TOK/S",
                         "BUSY", "ROWS"});
  for (const client::NodeView& node : view.nodes) {
    table.add(
        node,
        {node.name, state_text(node), stage_text(node), layers_text(node), node.isa,
         std::to_string(node.threads), node.placed ? format_bytes(node.weight_bytes) : "-",
         rate(node.rows_per_second), percentage(node.busy_ratio), std::to_string(node.rows_total)});
  }
  add_table(table.lines(), lines);
  add_cards(view, lines);
  return lines;
}

Lines top_lines(const client::SwarmView& view, const std::string& api_base,
                const std::string& time) {
  Lines lines = {escape_control(view.model) + " at " + api_base + "  " +
                     (view.ready ? "ready" : "not ready") + "  " + time,
                 rates_text(view)};
  add_remarks(view, lines);
  NodeTable table(view, {"NODE", "STATE", "LAYERS", "TOK/S", "BUSY", "KV", "WEIGHTS"});
  for (const client::NodeView& node : view.nodes) {
    table.add(node, {node.name, state_text(node), layers_bar(node, view.layers),
                     rate(node.rows_per_second),
                     bar(0.0, node.busy_ratio) + " " + percentage(node.busy_ratio), kv_text(node),
                     node.placed ? format_bytes(node.weight_bytes) : "-"});
  }
  add_table(table.lines(), lines);
  add_cards(view, lines);
  return lines;
}

}  // namespace hearth::cli
