// The ledger. Every entry has two figures: `reserved`, raised by compare-exchange before anything else and never above
// the cap, and `committed`, which follows when the charge has all its entries. A charge takes account, parents and
// phase one after the other, always in this order, and steps back when one is full. It is refused only by committed
// bytes: if bytes that another charge holds on the way are in the way, it tries again, so a charge that fits is never
// refused because of one that does not. The order (leaf to root, phase last) is the same for all, so one of the
// competitors always gets on. Peaks are taken from committed bytes: what was refused leaves no trace.
#include <atomic>
#include <cstdio>
#include <map>
#include <thread>
#include <utility>

#include <penstock/gpu/memory_accounts.h>
#include <penstock/gpu/memory_plan.h>

namespace penstock::gpu {
namespace {

struct Entry {
  std::string path;
  Entry* parent = nullptr;
  Entry* phase = nullptr;
  std::atomic<std::uint64_t> reserved{0};
  std::atomic<std::uint64_t> committed{0};
  std::atomic<std::uint64_t> peak{0};
  std::atomic<std::uint64_t> cap{kNoCap};
};

struct Ledger {
  std::map<std::string, std::unique_ptr<Entry>> accounts;
  std::vector<std::unique_ptr<Entry>> phases;  // in the order in which they were made
};

Ledger& ledger_of(const std::shared_ptr<void>& ledger) { return *static_cast<Ledger*>(ledger.get()); }
Entry& entry_of(void* entry) { return *static_cast<Entry*>(entry); }

// What comes after an entry on the way of a charge: its parents, then the phase of the entry that was asked.
template <class Visit>
Entry* visit_until(Entry& asked, Visit visit) {
  for (Entry* entry = &asked; entry != nullptr; entry = entry->parent) {
    if (!visit(*entry)) return entry;
  }
  if (asked.phase != nullptr && !visit(*asked.phase)) return asked.phase;
  return nullptr;
}

bool fits(std::uint64_t in_use, std::uint64_t bytes, std::uint64_t cap) {
  return in_use <= cap && bytes <= cap - in_use;
}

bool try_reserve(Entry& entry, std::uint64_t bytes) {
  std::uint64_t reserved = entry.reserved.load();
  do {
    if (!fits(reserved, bytes, entry.cap.load())) return false;
  } while (!entry.reserved.compare_exchange_weak(reserved, reserved + bytes));
  return true;
}

void commit(Entry& entry, std::uint64_t bytes) {
  const std::uint64_t current = entry.committed.fetch_add(bytes) + bytes;
  std::uint64_t peak = entry.peak.load();
  while (peak < current && !entry.peak.compare_exchange_weak(peak, current)) {
  }
}

[[noreturn]] void refuse(const Entry& full, const Entry& asked, std::uint64_t bytes, std::string_view tag) {
  const std::uint64_t current = full.committed.load();
  const std::uint64_t cap = full.cap.load();
  const std::string of = &full == &asked ? "" : " of " + asked.path;
  throw DeviceMemoryLimit(full.path + ": " + format_size(bytes) + " for \"" + std::string(tag) + "\"" + of +
                              " do not fit: " + format_size(current) + " of " + format_size(cap) + " are in use",
                          full.path, std::string(tag), bytes, current, cap);
}

void reserve(Entry& asked, std::uint64_t bytes, std::string_view tag) {
  for (;;) {
    const Entry* full =
        visit_until(asked, [&](const Entry& entry) { return fits(entry.committed.load(), bytes, entry.cap.load()); });
    if (full != nullptr) refuse(*full, asked, bytes, tag);
    const Entry* busy = visit_until(asked, [&](Entry& entry) { return try_reserve(entry, bytes); });
    if (busy == nullptr) break;
    visit_until(asked, [&](Entry& entry) {
      if (&entry == busy) return false;
      entry.reserved.fetch_sub(bytes);
      return true;
    });
    std::this_thread::yield();
  }
  visit_until(asked, [&](Entry& entry) {
    commit(entry, bytes);
    return true;
  });
}

void give_back(Entry& asked, std::uint64_t bytes) noexcept {
  visit_until(asked, [&](Entry& entry) {
    entry.committed.fetch_sub(bytes);
    entry.reserved.fetch_sub(bytes);
    return true;
  });
}

AccountFigures figures_of(const Entry& entry) {
  return {.path = entry.path,
          .current_bytes = entry.committed.load(),
          .peak_bytes = entry.peak.load(),
          .cap_bytes = entry.cap.load()};
}

Entry& make_phase(Ledger& ledger, const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) {
    throw InvalidArgument("phase \"" + name + "\": a name is expected, without \"/\"");
  }
  for (const auto& phase : ledger.phases) {
    if (phase->path == name) return *phase;
  }
  ledger.phases.push_back(std::make_unique<Entry>());
  ledger.phases.back()->path = name;
  return *ledger.phases.back();
}

Entry& make_account(Ledger& ledger, const std::string& path) {
  if (const auto found = ledger.accounts.find(path); found != ledger.accounts.end()) return *found->second;
  Entry* parent = nullptr;
  const std::size_t slash = path.rfind('/');
  const std::string last = slash == std::string::npos ? path : path.substr(slash + 1);
  if (last.empty() || slash == 0) throw InvalidArgument("account \"" + path + "\": a part of the path is empty");
  if (slash != std::string::npos) parent = &make_account(ledger, path.substr(0, slash));
  auto entry = std::make_unique<Entry>();
  entry->path = path;
  entry->parent = parent;
  entry->phase = parent == nullptr ? nullptr : parent->phase;
  return *ledger.accounts.emplace(path, std::move(entry)).first->second;
}

Entry* find_entry(Ledger& ledger, const std::string& path_or_phase) {
  for (const auto& phase : ledger.phases) {
    if (phase->path == path_or_phase) return phase.get();
  }
  const auto found = ledger.accounts.find(path_or_phase);
  return found == ledger.accounts.end() ? nullptr : found->second.get();
}

std::string cap_text(std::uint64_t cap_bytes) { return cap_bytes == kNoCap ? "-" : format_size(cap_bytes); }

}  // namespace

Charge::Charge(std::shared_ptr<void> ledger, void* entry, std::uint64_t bytes) noexcept
    : ledger_(std::move(ledger)), entry_(entry), bytes_(bytes) {}

Charge::Charge(Charge&& other) noexcept
    : ledger_(std::move(other.ledger_)),
      entry_(std::exchange(other.entry_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Charge& Charge::operator=(Charge&& other) noexcept {
  Charge taken(std::move(other));
  std::swap(ledger_, taken.ledger_);
  std::swap(entry_, taken.entry_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}

Charge::~Charge() {
  if (entry_ != nullptr) give_back(entry_of(entry_), bytes_);
}

Charge MemoryAccount::charge(std::uint64_t bytes, std::string_view tag) const {
  reserve(entry_of(entry_), bytes, tag);
  return {ledger_, entry_, bytes};
}

AccountFigures MemoryAccount::figures() const { return figures_of(entry_of(entry_)); }

Charge Phase::lease(std::uint64_t bytes, std::string_view tag) const {
  reserve(entry_of(entry_), bytes, tag);
  return {ledger_, entry_, bytes};
}

AccountFigures Phase::figures() const { return figures_of(entry_of(entry_)); }

MemoryAccounts::MemoryAccounts() : ledger_(std::make_shared<Ledger>()) {}

MemoryAccount MemoryAccounts::account(const std::string& path, std::string_view phase) {
  Ledger& ledger = ledger_of(ledger_);
  Entry& entry = make_account(ledger, path);
  if (!phase.empty()) {
    Entry& wanted = make_phase(ledger, std::string(phase));
    if (entry.phase != &wanted && entry.committed.load() != 0) {
      throw InvalidArgument("account \"" + path + "\": it holds " + format_size(entry.committed.load()) +
                            " and cannot change to phase \"" + wanted.path + "\"");
    }
    entry.phase = &wanted;
  }
  MemoryAccount account;
  account.ledger_ = ledger_;
  account.entry_ = &entry;
  return account;
}

Phase MemoryAccounts::phase(const std::string& name) {
  Phase phase;
  phase.ledger_ = ledger_;
  phase.entry_ = &make_phase(ledger_of(ledger_), name);
  return phase;
}

void MemoryAccounts::set_cap(const std::string& path_or_phase, std::uint64_t cap_bytes) {
  Entry* entry = find_entry(ledger_of(ledger_), path_or_phase);
  if (entry == nullptr) throw InvalidArgument("no account or phase \"" + path_or_phase + "\"");
  const std::uint64_t current = entry->committed.load();
  if (current > cap_bytes) {
    throw InvalidArgument(path_or_phase + ": a cap of " + format_size(cap_bytes) + " is below the " +
                          format_size(current) + " in use");
  }
  entry->cap.store(cap_bytes);
}

std::vector<AccountFigures> MemoryAccounts::figures() const {
  const Ledger& ledger = ledger_of(ledger_);
  std::vector<AccountFigures> rows;
  rows.reserve(ledger.phases.size() + ledger.accounts.size());
  for (const auto& phase : ledger.phases) rows.push_back(figures_of(*phase));
  for (const auto& [path, account] : ledger.accounts) rows.push_back(figures_of(*account));
  return rows;
}

void MemoryAccounts::reset_peaks() {
  Ledger& ledger = ledger_of(ledger_);
  for (const auto& phase : ledger.phases) phase->peak.store(phase->committed.load());
  for (const auto& [path, account] : ledger.accounts) account->peak.store(account->committed.load());
}

std::string MemoryAccounts::table() const {
  std::string text;
  const auto row = [&text](const std::string& path, const std::string& current, const std::string& peak,
                           const std::string& cap) {
    char line[160];
    std::snprintf(line, sizeof line, "%-28s %12s %12s %12s\n", path.c_str(), current.c_str(), peak.c_str(),
                  cap.c_str());
    text += line;
  };
  row("account", "current", "peak", "cap");
  for (const AccountFigures& figures : figures()) {
    row(figures.path, format_size(figures.current_bytes), format_size(figures.peak_bytes), cap_text(figures.cap_bytes));
  }
  return text;
}

}  // namespace penstock::gpu
