// SwarmView: the state of a swarm, parsed from a server's answer. The server may be another version
// or not Hearth: every field is checked here, and texts must be escaped before they are shown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "proto/away.h"
#include "proto/card_reading.h"

namespace hearth::client {

struct NodeView {
  std::string name;
  std::string beside;  // its model, if that is loaded beside SwarmView::model; empty otherwise
  std::string state;
  std::optional<Away> away;  // its owner uses it
  std::string isa;
  std::uint32_t threads = 0;
  bool placed = false;  // in a pipeline; else stage and layers have no meaning
  std::uint32_t stage = 0;
  std::uint32_t rank = 0;   // in the group that computes the stage together,
  std::uint32_t ranks = 1;  // which has so many
  LayerRange layers;
  std::uint64_t held_bytes = 0;  // of its ordered layers, on its disk
  std::uint64_t held_total = 0;  // 0: it has the whole file
  std::uint64_t weight_bytes = 0;
  std::uint64_t draft_bytes = 0;  // memory that it keeps for a draft model; 0: it has none
  std::uint64_t rows_total = 0;
  std::uint64_t kv_tokens_used = 0;
  std::uint64_t kv_tokens_kept = 0;  // of the prefix cache
  std::uint64_t kv_tokens = 0;       // that fit; 0: unknown
  double rows_per_second = 0.0;
  double busy_ratio = 0.0;
  std::string device;  // a card's name; empty: the processor
  CardReading card;
  std::string slow;      // how slow it is; empty: not slow
  std::string spare;     // why no pipeline has it; empty: one has, or unknown
  std::string newcomer;  // a present newcomer's activity, or why it waits; else empty
  // As in the ledger.
  struct Standing {
    std::string level;
    std::uint64_t audited_right = 0;
    std::uint64_t faults = 0;    // that still count
    bool tombstoned = false;     // it neither serves nor checks again
    std::uint64_t disputes = 0;  // open ones that it is a party of
  };
  std::optional<Standing> standing;
  std::string barred;       // why the ledger bars it; empty: not barred
  std::string unreceipted;  // why its work has no receipts; empty: it has, or unknown
  std::uint64_t unreceipted_windows = 0;
  std::string owner;  // of the node; empty: unknown
};

// A stage without a worker.
struct GapView {
  LayerRange layers;
  std::uint64_t weight_bytes = 0;
  std::uint64_t memory_bytes = 0;  // a worker's minimum; 0: unknown
};

// A link of a pipeline from one stage to the next.
struct LinkView {
  std::string from;
  std::string to;
  std::string route;              // direct, reverse, punched, relayed
  std::string relay;              // the node that forwards; empty: the coordinator, or no relay
  double seconds = 0.0;           // its delay
  double bytes_per_second = 0.0;  // 0: not measured
};

// A node that others accuse of sending wrong bytes of the model.
struct AccusedView {
  std::string node;
  std::uint32_t accusers = 0;
  std::string item;  // that the first of them named
  bool out = false;  // no node may fetch from it
};

// A ledger's time may be ahead of a correct clock by this much.
inline constexpr std::int64_t kLedgerAheadSeconds = 60;

// Windows selected for recomputation.
struct AuditsView {
  std::uint64_t agreed = 0;
  std::uint64_t disputed = 0;
  std::uint64_t missed = 0;
  std::uint64_t waiting = 0;
  std::string why_waiting;
  std::uint64_t open_disputes = 0;
  std::uint64_t ended_disputes = 0;
  std::uint64_t unjudged_disputes = 0;
  std::uint64_t referee_missed = 0;  // windows that draws gave to the server's own referee
  std::string why_referee_missed = {};
  std::uint64_t unreceipted = 0;  // windows that were computed and have no receipt
  std::map<std::string, std::uint64_t> unreceipted_by_key = {};  // ids of API keys
};

struct SwarmView {
  std::string version;
  std::string cluster;  // its name; empty: no other machine can join
  std::string model;
  std::uint32_t layers = 0;
  std::uint64_t model_bytes = 0;
  bool ready = false;
  std::string missing;    // why not
  bool joinable = false;  // by other machines
  std::uint32_t stages_wanted = 0;
  std::size_t pipelines = 0;
  std::uint32_t running = 0;
  std::uint64_t running_most = 0;  // as each request keeps a state; 0: none keeps one
  std::uint32_t waiting = 0;
  double tokens_per_second = 0.0;
  double prompt_tokens_per_second = 0.0;
  double watts = 0.0;             // drawn by the machines of power_nodes
  std::uint32_t power_nodes = 0;  // workers that report it
  // Tokens that were drafted and verified, by the kind of their drafts.
  struct Drafts {
    std::string kind;
    std::uint64_t drafted = 0;
    std::uint64_t accepted = 0;
  };
  std::vector<Drafts> drafts;
  std::vector<NodeView> nodes;
  std::vector<GapView> gaps;
  std::vector<LinkView> links;
  std::vector<AccusedView> accused;
  AuditsView audits;
  std::int64_t ledger_ahead_seconds = 0;           // of the server's clock
  std::optional<std::uint64_t> ledger_free_bytes;  // of its disk
  std::string ledger_fault;  // why logging stopped; empty: it runs, or there is no ledger
  // The account of the server's own machine, in a cluster with credits.
  struct Credits {
    std::int64_t balance = 0;
    std::int64_t reserved = 0;  // of it, for requests that run
  };
  std::optional<Credits> credits;
  // Of coordinators that share a store in PostgreSQL.
  struct Store {
    std::string url;          // without a password
    std::uint64_t epoch = 0;  // of the lease
    std::string leader;
    std::string api;  // the leader's
    std::vector<std::string> standbys = {};
    std::string away = {};  // why the store does not answer; empty: it does
  };
  std::optional<Store> store;
};

// Who leads with the store, and who waits, as a sentence that must be escaped before it is shown.
std::string store_text(const SwarmView::Store& store);

// Reads the body of GET /api/v1/state. kInvalidInput says what is not as expected.
Result<SwarmView> read_swarm_view(const std::string& json);

}  // namespace hearth::client
