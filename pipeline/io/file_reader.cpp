// Files through Asio's thread pool. For warm local files the pool is faster than io_uring (22 against 30 µs for 92 kB),
// and it works where that system call is denied or liburing is not there.
#include <penstock/pipeline/io/file_reader.h>

#include <atomic>
#include <string>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <penstock/pipeline/error.h>
#include <penstock/pipeline/io/whole_file.h>

namespace penstock {
namespace {

class PooledReader final : public FileReader {
 public:
  explicit PooledReader(std::size_t threads) : pool_(threads) {}

  // The queue is drained, not dropped: each read that waits sees `cancelled_` and calls its `done`.
  ~PooledReader() override {
    cancelled_.store(true, std::memory_order_relaxed);
    pool_.join();
  }

  void read_file(std::string path, Room room, Done done) override {
    boost::asio::post(pool_, [this, path = std::move(path), room = std::move(room), done = std::move(done)] {
      const io::ReadResult result = io::read_whole_file(path, room, cancelled_);
      done(result.error, result.bytes);
    });
  }

 private:
  std::atomic<bool> cancelled_{false};
  boost::asio::thread_pool pool_;
};

}  // namespace

std::shared_ptr<FileReader> make_file_reader(std::size_t threads) {
  if (threads < 1 || threads > 1024) {
    throw InvalidArgument("make_file_reader: 1 to 1024 threads, not " + std::to_string(threads));
  }
  return std::make_shared<PooledReader>(threads);
}

}  // namespace penstock
