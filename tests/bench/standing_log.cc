// A ledger in which the workers of a data folder have a standing: as many windows as are asked for
// were served by each and audited right by its neighbour, evenly over the days before now. Every
// entry is signed with the folder's own keys, so that `hearth audit` finds the log sound. For
// benches of what a swarm costs that has run for long.
//   standing_log DATA_FOLDER WINDOWS DAYS     after a first start of its server and local workers
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/private_file.h"
#include "ledger/books.h"
#include "ledger/log.h"

namespace {

using namespace hearth;

constexpr std::int64_t kDay = 24 * 3'600;

class Maker {
 public:
  Maker(SecretKey cluster, std::vector<SecretKey> workers)
      : cluster_(std::move(cluster)), workers_(std::move(workers)), latest_(workers_.size()) {}

  Status run(ledger::Log& log, std::int64_t windows, std::int64_t days) {
    const std::int64_t now = SystemClock().unix_seconds();
    time_ = now - days * kDay;
    TRY_VOID(put(log, ledger::RulesEntry{ledger::policy_hash({}), cluster_.public_key()}));
    for (const SecretKey& worker : workers_) {
      const PublicKey& key = worker.public_key();
      TRY_VOID(put(log, ledger::MemberEntry{key, blake2b(key.bytes()), true}));
    }
    for (std::int64_t i = 0; i < windows; ++i) {
      time_ = std::max(time_, now - days * kDay * (windows - i) / windows);
      for (std::size_t w = 0; w < workers_.size(); ++w) TRY_VOID(audited_window(log, w));
    }
    TRY_VOID(flush(log));
    for (const SecretKey& worker : workers_) {
      const ledger::Standing& standing = *books_.standing(worker.public_key());
      std::printf("%s is a %s, audited at %.1f %%\n", worker.public_key().hex().c_str(),
                  std::string(ledger::level_name(standing.level({}, now))).c_str(),
                  1e-4 * static_cast<double>(standing.audit_rate({}, now)));
    }
    return ok_status();
  }

 private:
  // One stage that is a pipeline alone: it needs no signature but the cluster's.
  Status audited_window(ledger::Log& log, std::size_t w) {
    ledger::Receipt r;
    random_bytes(r.slot.request);
    r.layer_end = 1;
    r.positions = 1;
    random_bytes(r.tokens.bytes);
    r.in_root = r.out_root = r.tokens;
    r.previous = latest_[w];
    r.begun_ms = static_cast<std::uint64_t>(time_) * 1'000;
    const auto edge = [this](const ledger::Edge& one) {
      return ledger::sign_edge(one, cluster_.public_key(), cluster_);
    };
    r.in_edge = edge(ledger::in_edge(r));
    r.out_edge = edge(ledger::out_edge(r));
    TRY(const Bytes bytes, ledger::sign_receipt(r, cluster_.public_key(), workers_[w]));
    latest_[w] = blake2b(bytes);
    ledger::ReceiptEntry receipt;
    std::ranges::copy(bytes, receipt.receipt.begin());
    const std::uint64_t entry = books_.entries();
    TRY_VOID(put(log, receipt));
    const SecretKey& auditor = workers_[(w + 1) % workers_.size()];
    Hash256 salt;
    random_bytes(salt.bytes);
    const Hash256 seal = ledger::seal_of(entry, auditor.public_key(), r.out_root, salt);
    TRY_VOID(put(log, ledger::sign_seal(entry, seal, cluster_.public_key(), auditor)));
    return put(log, ledger::OpeningEntry{entry, auditor.public_key(), r.out_root, salt});
  }

  Status put(ledger::Log& log, ledger::EntryBody body) {
    waiting_.push_back(ledger::write_entry({time_, std::move(body)}));
    TRY_VOID(books_.apply(waiting_.back()));
    return waiting_.size() < limits::kLogBatch ? ok_status() : flush(log);
  }
  Status flush(ledger::Log& log) {
    const std::vector<ByteSpan> spans(waiting_.begin(), waiting_.end());
    TRY_VOID(log.append(spans));
    waiting_.clear();
    return ok_status();
  }

  const SecretKey cluster_;
  const std::vector<SecretKey> workers_;
  std::vector<Hash256> latest_;
  ledger::Books books_;
  std::int64_t time_ = 0;
  std::vector<Bytes> waiting_;
};

Status make(const std::string& data, std::int64_t windows, std::int64_t days) {
  TRY(const SecretKey cluster, read_key_file(data + "/cluster.key"));
  std::vector<SecretKey> workers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(data + "/local", error)) {
    if (entry.path().extension() != ".key") continue;
    TRY(SecretKey key, read_key_file(entry.path().string()));
    workers.push_back(std::move(key));
  }
  REQUIRE(workers.size() > 1, data + "/local has not the keys of two workers");
  TRY(auto folder, ledger::open_log_folder(data + "/ledger", ledger::LogAccess::kCreate));
  std::unique_ptr<ledger::Log> log;
  if (ledger::read_checkpoint(*folder)) {
    TRY(log, ledger::Log::open(std::move(folder), cluster));
  } else {
    TRY(log, ledger::Log::create(std::move(folder), cluster));
  }
  REQUIRE(log->size() == 0, data + "/ledger has entries already");
  return Maker(cluster, std::move(workers)).run(*log, windows, days);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t windows = argc == 4 ? std::strtoll(argv[2], nullptr, 10) : 0;
  const std::int64_t days = argc == 4 ? std::strtoll(argv[3], nullptr, 10) : 0;
  if (windows < 1 || days < 1) {
    std::fputs("usage: standing_log DATA_FOLDER WINDOWS DAYS\n", stderr);
    return 2;
  }
  const Status made = make(argv[1], windows, days);
  if (!made) std::fprintf(stderr, "%s\n", made.error().message.c_str());
  return made ? 0 : 1;
}
