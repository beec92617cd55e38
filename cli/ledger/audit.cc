#include "cli/ledger/audit.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hex.h"
#include "base/limits.h"
#include "base/private_file.h"
#include "cli/ledger/audit_evidence.h"
#include "cli/terminal/date_text.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "ledger/books.h"
#include "ledger/scan.h"
#include "ledger/witness.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

Result<std::string> read_text(const std::string& path, std::size_t limit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::kNotFound, "there is no file " + path};
  std::string text(limit + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

Result<ledger::Checkpoint> kept_checkpoint(const std::string& path) {
  TRY(const std::string text, read_text(path, limits::kNoteBytes));
  auto checkpoint = ledger::parse_checkpoint(as_bytes(text));
  if (!checkpoint) return Error::invalid(path + ": " + checkpoint.error().message);
  return checkpoint;
}

Result<ledger::ScanOptions> scan_options(const AuditOptions& options) {
  ledger::ScanOptions scan;
  TRY(scan.key, log_key(options.key));
  if (!options.earlier.empty()) {
    TRY(scan.earlier, kept_checkpoint(options.earlier));
  }
  if (options.keep.empty()) return scan;
  auto kept = kept_checkpoint(options.keep);
  if (kept) {
    scan.earlier = *std::move(kept);
  } else if (kept.error().code != ErrorCode::kNotFound) {
    return kept.error();
  }
  return scan;
}

// An older one that is kept loses its place only to one that extends it.
Status keep_checkpoint(const AuditOptions& options, const ledger::Checkpoint& checkpoint) {
  if (options.keep.empty()) return ok_status();
  return write_private_file(options.keep, as_bytes(checkpoint.text()));
}

// The books of a ledger's log. A log none of whose entries is a ledger's is verified as a log.
struct Fold {
  ledger::Books books;
  bool is_ledger = false;
  std::map<std::uint64_t, ledger::VerdictEntry> verdicts;  // by their entries
  Evidence evidence;

  Status visit(std::uint64_t index, ByteSpan bytes) {
    const auto entry = ledger::parse_entry(bytes);
    if (index == 0) is_ledger = entry && std::holds_alternative<ledger::RulesEntry>(entry->body);
    REQUIRE(is_ledger || !entry,
            "it is a ledger's, and the log does not begin with the rules of one");
    if (!is_ledger) return ok_status();
    TRY_VOID(books.apply(bytes));
    if (const auto* verdict = std::get_if<ledger::VerdictEntry>(&entry->body)) {
      verdicts[index] = *verdict;
    }
    return ok_status();
  }
  Status check_cluster(const PublicKey& log) const {
    REQUIRE(!is_ledger || books.cluster() == log, "tile/entries: entry 0 names cluster " +
                                                      books.cluster().hex() +
                                                      ", but the log is of key " + log.hex());
    return ok_status();
  }
};

Result<ledger::Scan> scan_and_fold(ledger::LogFolder& folder, const ledger::ScanOptions& options,
                                   Fold& fold) {
  TRY(ledger::Scan scan,
      ledger::scan_log(folder, options, [&fold](std::uint64_t index, ByteSpan bytes) {
        return fold.visit(index, bytes);
      }));
  TRY_VOID(fold.check_cluster(scan.checkpoint.log));
  // Nobody was found guilty without it: it is on the disk before its verdict.
  TRY(fold.evidence, check_evidence(folder, scan.checkpoint, fold.verdicts));
  std::erase_if(scan.strange,
                [&fold](const std::string& name) { return fold.evidence.files.contains(name); });
  return scan;
}

Json books_json(const Fold& fold) {
  if (!fold.is_ledger) return Json();
  return {{"members", fold.books.members()},
          {"in_circulation", -fold.books.balance({})},
          {"disputes", fold.books.disputes()},
          {"verdicts", fold.verdicts.size() - fold.books.audits().unjudged},
          {"unjudged", fold.books.audits().unjudged},
          {"games", fold.evidence.disputes},
          {"audits",
           {{"draws", fold.books.audits().draws},
            {"selected", fold.books.audits().selected},
            {"agreed", fold.books.audits().agreed},
            {"disagreed", fold.books.audits().disagreed},
            {"missed", fold.books.audits().missed},
            {"refereed", fold.books.audits().refereed},
            {"referee_missed", fold.books.audits().referee_missed}}},
          {"hash", fold.books.hash().hex()}};
}

void print_books(const Fold& fold) {
  if (!fold.is_ledger) {
    std::printf("  books         none: the entries are no ledger's, only the log was verified\n");
    return;
  }
  std::printf("  books         members: %zu; credits in circulation: %lld; open disputes: %zu\n",
              fold.books.members(), static_cast<long long>(-fold.books.balance({})),
              fold.books.disputes().size());
  std::printf("                folded from nothing to %s\n", fold.books.hash().hex().c_str());
  if (!fold.verdicts.empty()) {
    std::printf(
        "  verdicts      %zu, the evidence of each beside the log; of them %llu that nobody could "
        "judge any more\n",
        fold.verdicts.size(), static_cast<unsigned long long>(fold.books.audits().unjudged));
    std::printf("                games of the two sides, each played again: %zu\n",
                fold.evidence.disputes);
  }
  const ledger::AuditCounts& audits = fold.books.audits();
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("  audits        draws, each drawn again: %llu; windows that they selected: %llu\n",
              number(audits.draws), number(audits.selected));
  std::printf(
      "                agreed: %llu; disagreed: %llu; selected, and past their hour without one: "
      "%llu\n",
      number(audits.agreed), number(audits.disagreed), number(audits.missed));
  std::printf(
      "                drawn for the coordinator's referee: %llu; not done by it in time: %llu\n",
      number(audits.refereed), number(audits.referee_missed));
}

void print_json(const AuditOptions& options, const ledger::Scan& scan, const Fold& fold) {
  Json cosignatures = Json::array();
  for (const ledger::Cosignature& one : scan.checkpoint.cosignatures) {
    cosignatures.push_back({{"key", one.witness.hex()}, {"time", one.time}});
  }
  Json witnesses = Json::array();
  for (const ledger::Checkpoint& one : scan.cosigned) {
    const ledger::Cosignature& line = one.cosignatures.front();
    witnesses.push_back({{"key", line.witness.hex()}, {"entries", one.size}, {"time", line.time}});
  }
  const Json json = {{"sound", true},
                     {"key", scan.checkpoint.log.hex()},
                     {"key_given", !options.key.empty()},
                     {"entries", scan.checkpoint.size},
                     {"root", scan.checkpoint.root.hex()},
                     {"cosignatures", cosignatures},
                     {"witnesses", witnesses},
                     {"books", books_json(fold)},
                     {"leftover", scan.leftover},
                     {"strange", scan.strange}};
  // A file's name may be no UTF-8.
  std::printf("%s\n",
              escape_json(json.dump(-1, ' ', false, Json::error_handler_t::replace)).c_str());
}

void print_text(const AuditOptions& options, const std::string& folder, const ledger::Scan& scan,
                const Fold& fold) {
  const ledger::Checkpoint& checkpoint = scan.checkpoint;
  std::printf("the log in %s is sound\n", escape_control(folder).c_str());
  std::printf("  key           %s\n", checkpoint.log.hex().c_str());
  if (options.key.empty()) {
    std::printf(
        "                taken from the log itself; whether it is the right one, only who "
        "knows it can say (--key)\n");
  }
  std::printf("  entries       %llu, each hashed and compared\n",
              static_cast<unsigned long long>(checkpoint.size));
  std::printf("  root          %s\n", checkpoint.root.hex().c_str());
  std::printf("  cosignatures  %zu of these entries\n", checkpoint.cosignatures.size());
  std::printf("  witnesses     %zu, each of this history\n", scan.cosigned.size());
  for (const ledger::Checkpoint& one : scan.cosigned) {
    const ledger::Cosignature& line = one.cosignatures.front();
    std::printf("                %s cosigned %llu entries at %s\n", line.witness.hex().c_str(),
                static_cast<unsigned long long>(one.size),
                date_text(static_cast<std::int64_t>(line.time)).c_str());
  }
  print_books(fold);
  for (const std::string& name : scan.leftover) {
    std::printf("  beyond the checkpoint, of an append that never ended: %s\n",
                escape_control(name).c_str());
  }
  for (const std::string& name : scan.strange) {
    std::printf(
        name.starts_with(kEvidenceFolder) ? "  no verdict names: %s\n" : "  no file of a log: %s\n",
        escape_control(name).c_str());
  }
}

// The file of a node that was shown two histories. What proves nothing is an error like any other.
int show_fork(const AuditOptions& options) {
  const auto key = log_key(options.key);
  if (!key) return fail(key.error());
  const auto text = read_text(options.fork, ledger::kForkBytes);
  if (!text) return fail(text.error());
  const auto fork = ledger::parse_fork(as_bytes(*text));
  if (!fork) return fail(Error::invalid(options.fork + ": " + fork.error().message));
  const PublicKey& log = fork->one.log;
  if (*key && **key != log) {
    return fail(Error::invalid(options.fork + ": it is of another log, " + log.hex()));
  }
  if (options.json) {
    const auto side = [](const ledger::Checkpoint& one) {
      return Json{{"entries", one.size}, {"root", one.root.hex()}};
    };
    const Json json = {{"sound", false},
                       {"key", log.hex()},
                       {"signed", {side(fork->one), side(fork->other)}},
                       {"root_of_the_first_in_the_second", fork->root.hex()}};
    std::printf("%s\n", json.dump().c_str());
  }
  (void)fail(Error::invalid(
      "two histories of one log are proved: its key " + log.hex() + " signed " +
      std::to_string(fork->one.size) + " entries with the root " + fork->one.root.hex() + ", and " +
      std::to_string(fork->other.size) + " with the root " + fork->other.root.hex() +
      ", the first " + std::to_string(fork->one.size) + " of which have the root " +
      fork->root.hex()));
  return kExitVerification;
}

}  // namespace

Result<std::optional<PublicKey>> log_key(const std::string& hex) {
  if (hex.empty()) return std::optional<PublicKey>();
  const auto bytes = from_hex(hex);
  REQUIRE(bytes, "--key: a log's key is 64 hex digits");
  TRY(const PublicKey key, PublicKey::parse(*bytes));
  return std::optional(key);
}

std::string log_folder(const std::string& given) {
  const fs::path inside = fs::path(given) / "ledger";
  std::error_code ignored;
  return fs::is_directory(inside, ignored) ? inside.string() : given;
}

int run_audit(const AuditOptions& options) {
  if (options.folder.empty() == options.fork.empty()) {
    fail(Error{ErrorCode::kInvalidInput,
               "audit takes one of two: a folder (a server's data folder, or a log's own), or "
               "--fork FILE; see hearth audit --help"});
    return kExitUsage;
  }
  if (!options.fork.empty()) return show_fork(options);
  const auto what = scan_options(options);
  if (!what) return fail(what.error());
  const std::string path = log_folder(options.folder);
  auto folder = ledger::open_log_folder(path, ledger::LogAccess::kRead);
  if (!folder) return fail(folder.error());
  Fold fold;
  const auto scan = scan_and_fold(**folder, *what, fold);
  if (scan) {
    if (const Status kept = keep_checkpoint(options, scan->checkpoint); !kept) {
      return fail(kept.error());
    }
    options.json ? print_json(options, *scan, fold) : print_text(options, path, *scan, fold);
    return kExitDone;
  }
  if (scan.error().code != ErrorCode::kInvalidInput) {
    return fail({scan.error().code, path + ": " + scan.error().message});
  }
  if (options.json) {
    const Json json = {{"sound", false}, {"fault", scan.error().message}};
    std::printf("%s\n",
                escape_json(json.dump(-1, ' ', false, Json::error_handler_t::replace)).c_str());
  }
  const std::string kept =
      options.keep.empty() ? "" : "\n" + options.keep + " is left as it is, and is evidence too";
  (void)fail(Error::invalid("the log in " + path + " is not sound: " + scan.error().message +
                            "\nkeep the folder as it is; it is evidence" + kept));
  return kExitVerification;
}

}  // namespace hearth::cli
