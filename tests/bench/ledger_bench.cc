// What the ledger's log sustains on this disk: entries appended a second in batches of several
// sizes, each on the disk under a signed checkpoint before it counts, beside what bare fsyncs of as
// many files cost here; and how fast a log is scanned. Asserts nothing.
//   bench_ledger FOLDER     a folder on the disk to measure; a log is made and removed in it
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "ledger/log.h"

namespace {

using namespace hearth;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kEntryBytes = 450;  // about a receipt
constexpr int kRounds = 5;

double seconds_since(Steady::time_point begun) {
  return std::chrono::duration<double>(Steady::now() - begun).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double fsync_seconds(const std::string& folder) {
  const std::string path = folder + "/probe";
  const Bytes bytes(8'192);
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || ::write(file, bytes.data(), bytes.size()) < 0) return 0;
    const auto begun = Steady::now();
    (void)::fsync(file);
    times.push_back(seconds_since(begun));
    ::close(file);
  }
  ::unlink(path.c_str());
  return median(times);
}

Result<double> append_rate(const std::string& path, std::size_t batch, std::size_t batches) {
  std::filesystem::remove_all(path);
  TRY(auto folder, ledger::open_log_folder(path, ledger::LogAccess::kCreate));
  TRY(const auto log, ledger::Log::create(std::move(folder), SecretKey::generate()));
  Bytes entry(kEntryBytes);
  random_bytes(entry);
  const std::vector<ByteSpan> entries(batch, ByteSpan(entry));
  const auto begun = Steady::now();
  for (std::size_t i = 0; i < batches; ++i) TRY_VOID(log->append(entries));
  return static_cast<double>(batch * batches) / seconds_since(begun);
}

Status measure(const std::string& above) {
  const std::string path = above + "/hearth-ledger-bench";
  std::printf("entries of %zu bytes; one fsync of 8 KiB here: %.0f us (median of 200)\n\n",
              kEntryBytes, fsync_seconds(above) * 1e6);
  std::printf("%8s %10s %22s\n", "BATCH", "APPENDS", "ENTRIES A SECOND");
  for (const auto& [batch, batches] : {std::pair<std::size_t, std::size_t>{1, 200},
                                       {16, 100},
                                       {256, 60},
                                       {1'000, 30},
                                       {10'000, 4}}) {
    std::vector<double> rates;
    for (int round = 0; round < kRounds; ++round) {
      TRY(const double rate, append_rate(path, batch, batches));
      rates.push_back(rate);
    }
    std::printf("%8zu %10zu %22.0f\n", batch, batches, median(rates));
  }
  TRY(auto folder, ledger::open_log_folder(path, ledger::LogAccess::kRead));
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    const auto begun = Steady::now();
    TRY(const auto scan, ledger::scan_log(*folder, {}, {}));
    rates.push_back(static_cast<double>(scan.checkpoint.size) / seconds_since(begun));
  }
  std::printf("\nscanned and verified: %.0f entries a second\n", median(rates));
  std::filesystem::remove_all(path);
  return ok_status();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: bench_ledger FOLDER\n", stderr);
    return 2;
  }
  const Status measured = measure(argv[1]);
  if (!measured) std::fprintf(stderr, "%s\n", measured.error().message.c_str());
  return measured ? 0 : 1;
}
