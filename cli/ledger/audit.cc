#include "cli/ledger/audit.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/hex.h"
#include "base/limits.h"
#include "base/private_file.h"
#include "cli/process/paths.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/print_line.h"
#include "cli/terminal/table.h"
#include "coordinator/store/stored_log.h"
#include "ledger/archive.h"
#include "ledger/books.h"
#include "ledger/dispute/evidence.h"
#include "ledger/scan.h"
#include "ledger/witness.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;
namespace fs = std::filesystem;

Result<ledger::Checkpoint> kept_checkpoint(const std::string& path) {
  TRY(const std::string text, read_text(path, limits::kNoteBytes));
  auto checkpoint = ledger::parse_checkpoint(as_bytes(text));
  if (!checkpoint) return Error::invalid(path, ": ", checkpoint.error().message);
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

// A kept checkpoint is replaced only by one that extends it.
Status keep_checkpoint(const AuditOptions& options, const ledger::Checkpoint& checkpoint) {
  if (options.keep.empty()) return ok_status();
  return write_private_file(options.keep, as_bytes(checkpoint.text()));
}

// The books of a ledger's log, as its fold gives them. A log without ledger entries is verified
// only as a log.
struct Fold {
  ledger::Books books;
  bool is_ledger = false;
  bool is_partial = false;  // archived entries are not read, so that nothing is folded
  std::map<std::uint64_t, ledger::VerdictEntry> verdicts;  // by their entries
  std::set<std::string> evidence;                          // files of the log's folder

  Status visit(std::uint64_t index, ByteSpan bytes) {
    if (is_partial) return ok_status();
    const auto entry = ledger::parse_entry(bytes);
    if (index == 0) is_ledger = entry && std::holds_alternative<ledger::RulesEntry>(entry->body);
    REQUIRE(is_ledger || !entry,
            "this log has ledger entries but does not begin with the ledger's rules");
    if (!is_ledger) return ok_status();
    TRY_VOID(books.apply(bytes));
    if (const auto* verdict = std::get_if<ledger::VerdictEntry>(&entry->body)) {
      verdicts[index] = *verdict;
    }
    return ok_status();
  }
  Status check_cluster(const PublicKey& log) const {
    REQUIRE(!is_ledger || books.cluster() == log, "tile/entries: entry 0 names cluster ",
            books.cluster().hex(), ", but the log's key is ", log.hex());
    return ok_status();
  }
};

// Checks that the evidence of each verdict exists and is the one that the log names; returns the
// names of the files. `hearth verify --re-execute` checks whether a verdict is right.
Result<std::set<std::string>> check_evidence(
    ledger::LogFolder& folder, const std::map<std::uint64_t, ledger::VerdictEntry>& verdicts) {
  std::set<std::string> files;
  for (const auto& [index, verdict] : verdicts) {
    const std::string at = "the verdict at entry " + std::to_string(index);
    const std::string name = message_of(ledger::kEvidenceFolder, verdict.evidence.hex());
    const auto bytes = folder.read(name, ledger::kEvidenceBytes);
    REQUIRE(bytes, name, ": cannot read the evidence of ", at, ": ", bytes.error().message);
    REQUIRE(blake2b(*bytes) == verdict.evidence, name, ": the file's hash is not the one in ", at);
    files.insert(name);
  }
  return files;
}

Result<ledger::Scan> scan_and_fold(ledger::LogFolder& folder, const ledger::ScanOptions& options,
                                   Fold& fold) {
  fold.is_partial = options.by_hash > 0;
  TRY(ledger::Scan scan,
      ledger::scan_log(folder, options,
                       [&fold](std::uint64_t index, ByteSpan bytes, const Hash256& /*leaf*/) {
                         return fold.visit(index, bytes);
                       }));
  TRY_VOID(fold.check_cluster(scan.checkpoint.log));
  // Evidence is on the disk before its verdict is logged, so a verdict without evidence is a fault.
  TRY(fold.evidence, check_evidence(folder, fold.verdicts));
  std::erase_if(scan.strange, [&fold](const std::string& name) {
    // Only all entries together show which verdicts have evidence.
    const bool is_known = fold.is_partial && name.starts_with(ledger::kEvidenceFolder);
    return is_known || fold.evidence.contains(name);
  });
  return scan;
}

OrderedJson books_json(const Fold& fold) {
  if (!fold.is_ledger) return OrderedJson();
  return {{"members", fold.books.members()},
          {"in_circulation", -fold.books.balance({})},
          {"disputes", fold.books.disputes()},
          {"verdicts", fold.verdicts.size() - fold.books.audits().unjudged},
          {"unjudged", fold.books.audits().unjudged},
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
  if (fold.is_partial) {
    return print_line(
        "  books         not replayed: that needs the archived entries (without "
        "--without-archive)");
  }
  if (!fold.is_ledger) {
    return print_line(
        "books         none: the log has no ledger entries; only the log itself was verified");
  }
  print_line("  books         members: {}; credits in circulation: {}; open disputes: {}",
             fold.books.members(), -fold.books.balance({}), fold.books.disputes().size());
  print_line("replayed from the first entry to {}", fold.books.hash().hex());
  const ledger::AuditCounts& audits = fold.books.audits();
  if (!fold.verdicts.empty()) {
    print_line(
        "  verdicts      {}, each with its evidence beside the log; {} ended without a decision",
        fold.verdicts.size(), audits.unjudged);
  }
  print_line("  audits        draws, each verified: {}; windows that they selected: {}",
             audits.draws, audits.selected);
  print_line(
      "                agreed: {}; disagreed: {}; selected but not audited within an hour: {}",
      audits.agreed, audits.disagreed, audits.missed);
  print_line("                drawn for the coordinator's referee: {}; not recomputed in time: {}",
             audits.refereed, audits.referee_missed);
}

using Archive = std::optional<ledger::ArchiveNote>;

OrderedJson archive_json(const AuditOptions& options, const Archive& archive) {
  if (!archive) return OrderedJson();
  return {{"entries", archive->entries},
          {"folder", options.archive.empty() ? archive->folder : options.archive},
          {"read", !options.without_archive}};
}

void print_json(const AuditOptions& options, const ledger::Scan& scan, const Fold& fold,
                const Archive& archive) {
  OrderedJson cosignatures = OrderedJson::array();
  for (const ledger::Cosignature& one : scan.checkpoint.cosignatures) {
    cosignatures.push_back({{"key", one.witness.hex()}, {"time", one.time}});
  }
  OrderedJson witnesses = OrderedJson::array();
  for (const ledger::Checkpoint& one : scan.cosigned) {
    const ledger::Cosignature& line = one.cosignatures.front();
    witnesses.push_back({{"key", line.witness.hex()}, {"entries", one.size}, {"time", line.time}});
  }
  const OrderedJson json = {{"sound", true},
                            {"key", scan.checkpoint.log.hex()},
                            {"key_given", !options.key.empty()},
                            {"entries", scan.checkpoint.size},
                            {"root", scan.checkpoint.root.hex()},
                            {"cosignatures", cosignatures},
                            {"witnesses", witnesses},
                            {"archived", archive_json(options, archive)},
                            {"books", books_json(fold)},
                            {"leftover", scan.leftover},
                            {"strange", scan.strange}};
  print_escaped(json);
}

void print_text(const AuditOptions& options, const std::string& folder, const ledger::Scan& scan,
                const Fold& fold, const Archive& archive) {
  const ledger::Checkpoint& checkpoint = scan.checkpoint;
  print_line("the log in {} is sound", escape_control(folder));
  print_line("  key           {}", checkpoint.log.hex());
  if (options.key.empty()) {
    print_line(
        "                taken from the log itself; compare it with the key that you know (--key)");
  }
  if (archive && options.without_archive) {
    print_line("  entries       {}; 0 to {} are archived, and only their hashes were compared",
               checkpoint.size, archive->entries - 1);
  } else {
    print_line("  entries       {}, each hashed and compared", checkpoint.size);
  }
  if (archive && !options.without_archive) {
    print_line("                0 to {} in the archive {}", archive->entries - 1,
               escape_control(options.archive.empty() ? archive->folder : options.archive));
  }
  print_line("  root          {}", checkpoint.root.hex());
  print_line("  cosignatures  {} of these entries", checkpoint.cosignatures.size());
  print_line("  witnesses     {}, each of this history", scan.cosigned.size());
  for (const ledger::Checkpoint& one : scan.cosigned) {
    const ledger::Cosignature& line = one.cosignatures.front();
    print_line("                {} cosigned {} entries at {}", line.witness.hex(), one.size,
               date_text(static_cast<std::int64_t>(line.time)));
  }
  print_books(fold);
  for (const std::string& name : scan.leftover) {
    print_line("  beyond the checkpoint, from an unfinished append: {}", escape_control(name));
  }
  for (const std::string& name : scan.strange) {
    print_line(
        "  {}: {}",
        name.starts_with(ledger::kEvidenceFolder) ? "named by no verdict" : "not a file of the log",
        escape_control(name));
  }
}

// Verifies the file of a node that saw two histories. A file that proves nothing is an ordinary
// error.
int show_fork(const AuditOptions& options) {
  const auto key = log_key(options.key);
  if (!key) return fail(key.error());
  const auto text = read_text(options.fork, ledger::kForkBytes);
  if (!text) return fail(text.error());
  const auto fork = ledger::parse_fork(as_bytes(*text));
  if (!fork) return fail(Error::invalid(options.fork, ": ", fork.error().message));
  const PublicKey& log = fork->one.log;
  if (*key && **key != log) {
    return fail(Error::invalid(options.fork, ": the proof is about another log; --key must be ",
                               log.hex()));
  }
  if (options.json) {
    const auto side = [](const ledger::Checkpoint& one) {
      return OrderedJson{{"entries", one.size}, {"root", one.root.hex()}};
    };
    const OrderedJson json = {{"sound", false},
                              {"key", log.hex()},
                              {"signed", {side(fork->one), side(fork->other)}},
                              {"root_of_the_first_in_the_second", fork->root.hex()}};
    print_line("{}", json.dump());
  }
  fail(Error::invalid("the log has two histories: its key ", log.hex(), " signed ", fork->one.size,
                      " entries with the root ", fork->one.root.hex(), ", and ", fork->other.size,
                      " with the root ", fork->other.root.hex(), ", the first ", fork->one.size,
                      " of which have the root ", fork->root.hex()));
  return kExitVerification;
}

}  // namespace

Result<std::optional<PublicKey>> log_key(const std::string& hex) {
  if (hex.empty()) return std::optional<PublicKey>();
  const auto bytes = from_hex(hex);
  REQUIRE(bytes, "--key must be the public key of a log, 64 hexadecimal digits");
  TRY(const PublicKey key, PublicKey::parse(*bytes));
  return std::optional(key);
}

std::string log_folder(const std::string& given) {
  const fs::path inside = fs::path(given) / "ledger";
  std::error_code ignored;
  return fs::is_directory(inside, ignored) ? inside.string() : given;
}

int not_proved(const std::string& sentence, const std::string& fault, bool json) {
  if (json) print_escaped({{"sound", false}, {"fault", fault}});
  fail(Error::invalid(sentence));
  return kExitVerification;
}

int run_audit(const AuditOptions& options) {
  if (options.folder.empty() == options.fork.empty()) {
    fail(Error{ErrorCode::kInvalidInput,
               "give either a folder (a server's data folder or a log folder) or --fork FILE; see "
               "hearth audit --help"});
    return kExitUsage;
  }
  if (!options.fork.empty()) return show_fork(options);
  auto what = scan_options(options);
  if (!what) return fail(what.error());
  const std::string path = log_folder(options.folder);
  auto folder = coordinator::open_log_to_read(options.folder, path, options.archive);
  if (!folder) return fail(folder.error());
  const auto archive = ledger::read_archive_note(**folder);
  if (!archive) return fail({archive.error().code, path + ": " + archive.error().message});
  if (*archive && options.without_archive) what->by_hash = (*archive)->entries;
  Fold fold;
  const auto scan = scan_and_fold(**folder, *what, fold);
  if (scan) {
    if (const Status kept = keep_checkpoint(options, scan->checkpoint); !kept) {
      return fail(kept.error());
    }
    options.json ? print_json(options, *scan, fold, *archive)
                 : print_text(options, path, *scan, fold, *archive);
    return kExitDone;
  }
  if (scan.error().code != ErrorCode::kInvalidInput) {
    return fail({scan.error().code, path + ": " + scan.error().message});
  }
  const std::string kept =
      options.keep.empty() ? "" : "\n" + options.keep + " is unchanged; keep it as evidence";
  return not_proved("the log in " + path + " is not sound: " + scan.error().message +
                        "\nkeep the folder unchanged as evidence" + kept,
                    scan.error().message, options.json);
}

}  // namespace hearth::cli
