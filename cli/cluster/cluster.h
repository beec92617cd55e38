// hearth init, join, approve, nodes, token, key and leave: a cluster, its members and its keys. The
// result is the exit code. Data folders: empty means the default of cli/process/paths.h. The server
// of a folder may run meanwhile: it reads the store at every request.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "cli/worker/worker.h"

namespace hearth::coordinator {
class Store;
}

namespace hearth::cli {

struct InitOptions {
  std::string name;  // empty: the existing cluster gets another address
  std::string host;  // empty: the address by which this machine reaches others, or unchanged
  std::uint16_t control_port = 0;  // 0: kClusterPort, or unchanged
  std::string data_dir;
  bool json = false;
  std::optional<bool> credits = {};  // nothing: none, or unchanged
  std::uint32_t invite = 0;  // with a new cluster: also create a join token for this many machines
  std::string store;         // with a new cluster: URL of PostgreSQL; empty: SQLite
};
// Makes this machine the coordinator of a cluster (cli/home/cluster_file.h), or changes the address
// or the credits of the cluster that it has.
Result<int> run_init(const InitOptions& options);

struct JoinOptions {
  // A join token. To ask without one: the address of a coordinator, or the name or words of a
  // cluster that announces itself. Empty: lists the clusters of this network; on a terminal, the
  // user may choose one.
  std::string target;
  std::uint32_t wait_seconds = 600;  // without a token: how long to wait for `hearth approve`
  bool yes = false;                  // without a token: no question before asking
  bool detach = false;               // a worker goes on in the background
  bool no_worker = false;            // no worker starts here: a service or `hearth worker` will
  WorkerOptions worker;
};
// Cleans what a person pasted after `hearth join`: removes quotes, blanks and any text before a
// join token.
std::string join_target(std::string pasted);
// With a model, this machine becomes a worker and runs until SIGINT or SIGTERM. Without a model, it
// gets the role that the token grants.
Result<int> run_join(const JoinOptions& options);

struct ApproveOptions {
  std::string node;  // its name or the words of its key; empty: list the nodes that wait
  std::string role = "worker";
  std::string owner;      // owner of the node; empty: none
  bool newcomer = false;  // it audits before it may serve
  std::string data_dir;
  bool json = false;
};
// Admits a node that asks to join without a token; on the coordinator's machine. A running server
// follows within two seconds. Nodes may ask for ten minutes after each call.
Result<int> run_approve(const ApproveOptions& options);

struct NodesOptions {
  std::string name;  // to remove
  std::string data_dir;
  bool here_only = false;
  bool json = false;
};
// Lists the roster of this machine's data folder, on the coordinator's machine and on a member.
Result<int> run_nodes(const NodesOptions& options);
// On the coordinator's machine. A running server follows within two seconds.
Result<int> run_nodes_rm(const NodesOptions& options);
// On the coordinator's machine while no server runs: repairs a folder or store that was replaced by
// an older copy (coordinator/membership/set_back.h).
Result<int> run_nodes_restore(const NodesOptions& options);
// On a machine that has joined.
Result<int> run_leave(const NodesOptions& options);
// Waits a few seconds for the roster of a running server to contain the key (`in`) or not to.
bool wait_for_roster(const std::string& folder, const PublicKey& key, bool in);
// Fails when a node in the coordinator's newest roster has that name.
Status check_name_is_free(const std::string& folder, const std::string& name);

struct StoreOptions {
  std::string to;  // URL of PostgreSQL, or "sqlite"
  std::string data_dir;
  bool json = false;
};
// On the coordinator's machine while no server runs.
Result<int> run_store_migrate(const StoreOptions& options);

struct TokenOptions {
  std::string id;               // to revoke
  std::string role = "worker";  // or client, admin: what the machine that joins may do
  std::uint32_t seconds = 24 * 3600;
  std::uint32_t uses = 1;
  std::string owner;      // of the nodes that join with it; empty: none
  bool newcomer = false;  // nodes that join with it audit before they may serve
  std::string data_dir;
  bool json = false;
};
// A new one, as proto/join_token.h writes it.
Result<std::string> make_join_token(const TokenOptions& options);
// `hearth join TOKEN` as a QR code for a camera. Nothing when it is wider than the terminal, or too
// high to be seen at once.
std::vector<std::string> join_code_lines(const std::string& token, std::size_t columns,
                                         std::size_t rows);
// Prints it where both stdout and `out` are a terminal that shows colours.
void show_join_code(std::FILE* out, const std::string& token);
Result<int> run_token_create(const TokenOptions& options);  // prints it; it cannot be shown again
Result<int> run_token_list(const TokenOptions& options);
Result<int> run_token_revoke(const TokenOptions& options);

// Creates the key in admin.key, with which this machine's user may use every route of the API. A
// key that it replaces is no longer valid.
Status make_admin_key(const std::string& folder, coordinator::Store& store);

struct KeyOptions {
  std::string name;                       // to create: empty, its id; to revoke: name or id
  std::vector<std::string> models;        // that it may use; empty: all
  std::uint32_t requests_per_minute = 0;  // 0: any number
  std::vector<std::string> trust;         // nodes for requests that name none; empty: any
  bool admin = false;
  std::string account;    // a node, or an account's 64 digits; empty: one of its own
  std::string verify;     // none, spot or full; empty: none
  std::string min_level;  // as ledger::level_name(); empty: a newcomer's
  std::string data_dir;
  bool json = false;
};
Result<int> run_key_create(const KeyOptions& options);  // prints it; it cannot be shown again
Result<int> run_key_list(const KeyOptions& options);
Result<int> run_key_revoke(const KeyOptions& options);

}  // namespace hearth::cli
