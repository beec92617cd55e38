// How long a server takes to open its ledger, by its size, and what a check without trust
// costs: a log of receipts as two stages make them, with a draw each two seconds of log time, is
// opened as `hearth serve` opens it, first without and then with the snapshot that the first time
// leaves, and folded as `hearth audit` folds it; one answer's receipts are found and checked as
// `hearth verify` does. Asserts nothing.
//   bench_ledger_open FOLDER [ENTRIES]     a folder on the disk to measure; a log is made in it
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hex.h"
#include "coordinator/proof/ledger_service.h"
#include "ledger/books.h"
#include "ledger/log.h"
#include "ledger/lookup.h"

namespace {

using namespace hearth;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kBatch = 10'000;
constexpr std::size_t kChecked = 20'001;  // entries, every signature of which is made and checked
constexpr std::int64_t kBegin = 1'700'000'000;
constexpr std::int64_t kPerSecond = 2;  // requests
// As many as a server logs between two draws at that rate (Auditor::kDrawPause).
constexpr std::uint64_t kReceiptsADraw = 2 * 2 * kPerSecond;

double seconds_since(Steady::time_point begun) {
  return std::chrono::duration<double>(Steady::now() - begun).count();
}

double processor_seconds() {
  struct rusage used {};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

SecretKey key_of(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}

// Receipts of two stages in turns, of one window a request, and draws over them.
class Maker {
 public:
  explicit Maker(bool is_signed) : is_signed_(is_signed) {}

  Bytes next() {
    Bytes entry = make();
    (void)edge_.push(ledger::leaf_hash(entry), [](const auto&, auto) { return ok_status(); });
    return entry;
  }
  const SecretKey& cluster() const { return cluster_; }
  const ledger::AnswerName& latest() const { return latest_; }

 private:
  Bytes make() {
    const std::uint64_t index = made_++;
    const std::int64_t time = kBegin + static_cast<std::int64_t>(receipts_ / 2) / kPerSecond;
    if (index == 0) {
      return write({time, ledger::RulesEntry{ledger::policy_hash({}), cluster_.public_key()}});
    }
    if (index <= 2) {
      const PublicKey& key = workers_[index - 1].public_key();
      return write({time, ledger::MemberEntry{key, blake2b(key.bytes()), true}});
    }
    if (receipts_ % kReceiptsADraw == 0 && std::exchange(drawn_, receipts_) != receipts_) {
      const Bytes message = ledger::draw_message(index, edge_.root(), cluster_.public_key());
      return write({time, ledger::DrawEntry{vrf_prove(cluster_, message)}});
    }
    const std::uint64_t number = receipts_++;
    return write({time, receipt(number / 2, number % 2, time)});
  }
  static Bytes write(ledger::Entry entry) { return ledger::write_entry(entry); }

  ledger::ReceiptEntry receipt(std::uint64_t request, std::size_t stage, std::int64_t time) {
    ledger::Receipt r;
    Bytes own;
    ByteWriter(own).write(request);
    latest_ = ledger::answer_name(time, blake2b(own).bytes);
    r.slot = {ledger::request_of(latest_, 0), 1, static_cast<std::uint16_t>(stage), 0};
    r.program = program_;
    r.layer_begin = static_cast<std::uint16_t>(15 * stage);
    r.layer_end = static_cast<std::uint16_t>(15 * stage + 15);
    r.stages = 2;
    r.positions = 128;
    r.prompt_positions = 64;
    Bytes tokens(own);
    r.tokens = blake2b(tokens);
    const Hash256 between = blake2b(r.tokens.bytes);
    r.in_root = stage == 0 ? r.tokens : between;
    r.out_root = stage == 0 ? between : r.tokens;
    r.previous = previous_[stage];
    r.begun_ms = static_cast<std::uint64_t>(time) * 1'000;
    ledger::ReceiptEntry entry;
    if (is_signed_) {
      const auto edge = [&](const ledger::Edge& one, const SecretKey& key) {
        return ledger::sign_edge(one, cluster_.public_key(), key);
      };
      r.in_edge = edge(ledger::in_edge(r), stage == 0 ? cluster_ : workers_[0]);
      r.out_edge = edge(ledger::out_edge(r), stage == 0 ? workers_[1] : cluster_);
      const Bytes bytes = ledger::sign_receipt(r, cluster_.public_key(), workers_[stage]).value();
      std::ranges::copy(bytes, entry.receipt.begin());
    } else {
      put(entry.receipt, r, stage);
    }
    previous_[stage] = blake2b(entry.receipt);
    return entry;
  }

  // One that was signed once, with the fields that change written over (ledger/receipt.h): a server
  // that opens its own log checks no signature that it checked before it logged.
  void put(std::array<std::byte, ledger::kReceiptBytes>& bytes, const ledger::Receipt& r,
           std::size_t stage) {
    Bytes& mould = moulds_[stage];
    if (mould.empty()) {
      mould = ledger::sign_receipt(r, cluster_.public_key(), workers_[stage]).value();
    }
    std::ranges::copy(mould, bytes.begin());
    const auto at = [&bytes](std::size_t offset, ByteSpan field) {
      std::ranges::copy(field, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    };
    Bytes begun;
    ByteWriter(begun).write(r.begun_ms);
    at(12, r.slot.request);
    at(84, r.tokens.bytes);
    at(116, r.in_root.bytes);
    at(148, r.out_root.bytes);
    at(180, r.previous.bytes);
    at(212, begun);
  }

  const bool is_signed_;
  const SecretKey cluster_ = key_of(1);
  const SecretKey workers_[2] = {key_of(2), key_of(3)};
  const Hash256 program_ = blake2b(as_bytes("program"));
  std::uint64_t made_ = 0;
  std::uint64_t receipts_ = 0;
  std::uint64_t drawn_ = 0;  // receipts, by the latest draw
  ledger::TreeEdge edge_;
  Hash256 previous_[2];
  Bytes moulds_[2];
  ledger::AnswerName latest_{};
};

Status make(const std::string& path, Maker& maker, std::size_t entries) {
  std::filesystem::remove_all(path);
  TRY(auto folder, ledger::open_log_folder(path, ledger::LogAccess::kCreate));
  TRY(const auto log, ledger::Log::create(std::move(folder), maker.cluster()));
  for (std::size_t done = 0; done < entries;) {
    std::vector<Bytes> some;
    while (some.size() < kBatch && done < entries) {
      some.push_back(maker.next());
      ++done;
    }
    const std::vector<ByteSpan> spans(some.begin(), some.end());
    TRY_VOID(log->append(spans));
  }
  return ok_status();
}

void print(const char* what, std::size_t entries, Steady::time_point begun, double used) {
  const double wall = seconds_since(begun);
  const double cpu = processor_seconds() - used;
  std::printf("%-44s %9zu %8.2f s %8.2f s of processors %7.2f us an entry\n", what, entries, wall,
              cpu, 1e6 * wall / static_cast<double>(entries));
}

Status open(const std::string& path, const SecretKey& cluster, std::size_t entries,
            coordinator::AuditMode mode, const char* what) {
  const SystemClock clock;
  TRY(auto folder, ledger::open_log_folder(path, ledger::LogAccess::kWrite));
  const auto begun = Steady::now();
  const double used = processor_seconds();
  TRY(const auto opened, coordinator::LedgerService::open(std::move(folder), cluster, "build", mode,
                                                          clock, [](const auto& /*task*/) {}));
  print(what, entries, begun, used);
  return ok_status();
}

std::uintmax_t size_of(const std::string& path) {
  std::uintmax_t bytes = 0;
  for (const auto& one : std::filesystem::recursive_directory_iterator(path)) {
    if (one.is_regular_file() && one.path().filename() != "snapshot") bytes += one.file_size();
  }
  return bytes;
}

Status measure(const std::string& above, std::size_t entries) {
  const std::string path = above + "/hearth-ledger-open-bench";
  Maker large(false);
  TRY_VOID(make(path, large, entries));
  {
    TRY(auto folder, ledger::open_log_folder(path, ledger::LogAccess::kRead));
    const auto begun = Steady::now();
    const double used = processor_seconds();
    TRY_VOID(ledger::scan_log(*folder, {}, {}));
    print("scanned: every entry hashed and compared", entries, begun, used);
  }
  TRY_VOID(open(path, large.cluster(), entries, coordinator::AuditMode::kSpot,
                "opened by serve without a snapshot"));
  TRY_VOID(open(path, large.cluster(), entries, coordinator::AuditMode::kSpot,
                "opened by serve with its snapshot"));
  std::printf("the snapshot has %ju bytes, the log's folder %ju KiB, %.1f bytes an entry\n",
              static_cast<std::uintmax_t>(std::filesystem::file_size(path + "/snapshot")),
              static_cast<std::uintmax_t>(size_of(path) / 1'024),
              static_cast<double>(size_of(path)) / static_cast<double>(entries));
  Maker checked(true);
  TRY_VOID(make(path, checked, kChecked));
  TRY(auto folder, ledger::open_log_folder(path, ledger::LogAccess::kRead));
  {
    ledger::Books books;
    const auto begun = Steady::now();
    const double used = processor_seconds();
    TRY_VOID(ledger::scan_log(
        *folder, {}, [&books](std::uint64_t /*index*/, ByteSpan entry, const Hash256& /*leaf*/) {
          return books.apply(entry);
        }));
    print("folded by audit, which checks all signatures", kChecked, begun, used);
  }
  TRY(const auto checkpoint, ledger::read_checkpoint(*folder));
  std::vector<double> finds;
  std::vector<double> checks;
  for (int i = 0; i < 101; ++i) {
    auto begun = Steady::now();
    TRY(const auto found, ledger::find_receipts(*folder, checkpoint, checked.latest()));
    finds.push_back(1e3 * seconds_since(begun));
    begun = Steady::now();
    TRY(const auto receipts, ledger::check_receipts(*folder, checkpoint, found));
    checks.push_back(1e3 * seconds_since(begun));
  }
  std::ranges::sort(finds);
  std::ranges::sort(checks);
  std::printf(
      "verify, two receipts of %zu entries: found in %.2f ms, checked in %.2f ms "
      "(medians of 101; 99 of them within %.2f and %.2f)\n",
      kChecked, finds[50], checks[50], finds[99], checks[99]);
  std::filesystem::remove_all(path);
  return ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fputs("usage: bench_ledger_open FOLDER [ENTRIES]\n", stderr);
    return 2;
  }
  const std::size_t entries = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 1'000'000;
  const Status measured = measure(argv[1], entries);
  if (!measured) std::fprintf(stderr, "%s\n", measured.error().message.c_str());
  return measured ? 0 : 1;
}
