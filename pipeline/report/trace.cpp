// A thread finds its ring through a short list of its own, by the recorder's number: addresses are used again.
#include <penstock/pipeline/report/trace.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/mutex.h>

namespace penstock {
namespace {

std::atomic<std::uint64_t> recorder_count{0};

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += code.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string microseconds(std::int64_t ns) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return text.data();
}

}  // namespace

struct Trace::Event {
  enum class Kind : std::uint8_t { kSlice, kSpan, kMark };
  Kind kind;
  std::uint32_t name;
  std::int64_t begin_ns;
  std::int64_t length_ns;
  About about;
};

/// Written by one thread, read by whoever writes the JSON.
struct Trace::Ring {
  Mutex mutex;
  std::string thread PENSTOCK_GUARDED_BY(mutex);
  std::vector<Event> events PENSTOCK_GUARDED_BY(mutex);
  std::uint64_t written PENSTOCK_GUARDED_BY(mutex) = 0;
};

class Trace::State {
 public:
  explicit State(std::size_t events_a_thread) : capacity(events_a_thread) {}
  void add(Ring& ring, const Event& event) const {
    const MutexLock lock(ring.mutex);
    if (ring.events.size() < capacity) {
      ring.events.push_back(event);
    } else {
      ring.events[ring.written % capacity] = event;
    }
    ++ring.written;
  }
  std::int64_t ns(Clock::time_point at) const {
    return std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(at - begin).count());
  }

  const std::uint64_t number = recorder_count.fetch_add(1);
  const std::size_t capacity;
  const Clock::time_point begin = Clock::now();
  mutable Mutex mutex;
  std::vector<std::string> names PENSTOCK_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<Ring>> rings PENSTOCK_GUARDED_BY(mutex);
};

Trace::Trace(std::size_t events_a_thread) : state_(std::make_unique<State>(events_a_thread)) {
  if (events_a_thread == 0) throw InvalidArgument("trace: a ring of 0 events keeps nothing; give at least 1");
}
Trace::~Trace() = default;

std::uint32_t Trace::name(std::string_view text) {
  const MutexLock lock(state_->mutex);
  const auto at = std::find(state_->names.begin(), state_->names.end(), text);
  if (at != state_->names.end()) return static_cast<std::uint32_t>(at - state_->names.begin());
  state_->names.emplace_back(text);
  return static_cast<std::uint32_t>(state_->names.size() - 1);
}

Trace::Ring& Trace::ring() {
  struct Mine {
    std::uint64_t recorder;
    std::shared_ptr<Ring> ring;
  };
  thread_local std::vector<Mine> mine;
  for (const Mine& one : mine) {
    if (one.recorder == state_->number) return *one.ring;
  }
  // Only this thread holds the rings of recorders that are gone.
  std::erase_if(mine, [](const Mine& one) { return one.ring.use_count() == 1; });
  mine.push_back({state_->number, std::make_shared<Ring>()});
  const MutexLock lock(state_->mutex);
  state_->rings.push_back(mine.back().ring);
  return *mine.back().ring;
}

void Trace::slice(std::uint32_t name, Clock::time_point begin, Clock::duration length, const About& about) {
  const std::int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(length).count();
  state_->add(ring(), {Event::Kind::kSlice, name, state_->ns(begin), std::max<std::int64_t>(0, ns), about});
}

void Trace::span(std::uint32_t name, Clock::time_point begin, Clock::time_point end, const About& about) {
  const std::int64_t at = state_->ns(begin);
  state_->add(ring(), {Event::Kind::kSpan, name, at, std::max<std::int64_t>(0, state_->ns(end) - at), about});
}

void Trace::mark(std::uint32_t name, Clock::time_point at, const About& about) {
  state_->add(ring(), {Event::Kind::kMark, name, state_->ns(at), 0, about});
}

void Trace::name_thread(std::string_view text) {
  Ring& mine = ring();
  const MutexLock lock(mine.mutex);
  if (mine.thread.empty()) mine.thread = text;
}

std::uint64_t Trace::dropped() const {
  const MutexLock lock(state_->mutex);
  std::uint64_t count = 0;
  for (const std::shared_ptr<Ring>& ring : state_->rings) {
    const MutexLock ring_lock(ring->mutex);
    count += ring->written - ring->events.size();
  }
  return count;
}

void Trace::write_json(std::ostream& out) const {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<Ring>> rings;
  {
    const MutexLock lock(state_->mutex);
    for (const std::string& name : state_->names) names.push_back(quoted(name));
    rings = state_->rings;
  }
  const auto arguments = [](const About& about) {
    std::string text;
    const auto add = [&](const char* name, std::uint64_t value) {
      if (value == About::kNothing) return;
      text += (text.empty() ? "" : ",") + quoted(name) + ":" + std::to_string(value);
    };
    add("epoch", about.epoch);
    add("batch", about.batch);
    add("row", about.row);
    add("count", about.count);
    add("sample", about.sample);
    return "{" + text + "}";
  };
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* comma = "\n";
  std::uint64_t spans = 0;
  for (std::size_t thread = 0; thread < rings.size(); ++thread) {
    Ring& ring = *rings[thread];
    const std::string place = ",\"pid\":1,\"tid\":" + std::to_string(thread + 1);
    const MutexLock lock(ring.mutex);
    const std::string title = ring.thread.empty() ? "thread" : ring.thread;
    out << comma << "{\"ph\":\"M\",\"name\":\"thread_name\"" << place << ",\"args\":{\"name\":" << quoted(title)
        << "}}";
    comma = ",\n";
    const std::size_t count = ring.events.size();
    const std::size_t oldest = count < state_->capacity ? 0 : static_cast<std::size_t>(ring.written % count);
    for (std::size_t i = 0; i < count; ++i) {
      const Event& event = ring.events[(oldest + i) % count];
      const std::string about = ",\"args\":" + arguments(event.about) + "}";
      const auto head = [&](const char* phase, std::int64_t at) {
        return std::string("{\"ph\":\"") + phase + "\",\"name\":" + names[event.name] + place +
               ",\"ts\":" + microseconds(at);
      };
      if (event.kind == Event::Kind::kSlice) {
        out << comma << head("X", event.begin_ns) << ",\"dur\":" << microseconds(event.length_ns) << about;
      } else if (event.kind == Event::Kind::kMark) {
        out << comma << head("i", event.begin_ns) << ",\"s\":\"t\"" << about;
      } else {
        const std::string id = ",\"cat\":\"span\",\"id\":" + std::to_string(++spans);
        out << comma << head("b", event.begin_ns) << id << about << comma << head("e", event.begin_ns + event.length_ns)
            << id << "}";
      }
    }
  }
  out << "\n]}\n";
}

}  // namespace penstock
