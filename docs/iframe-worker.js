// Pages that are opened from files may start no worker, so search would find nothing there: what a
// worker would run is run in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.loaded = new Promise((loaded, failed) => {
        this.frame.onload = () => {
          const inside = this.frame.contentWindow;
          inside.postMessage = (data) => this.onmessage?.({ data });
          const script = inside.document.createElement("script");
          script.onload = () => loaded(inside);
          script.onerror = failed;
          script.src = new URL(address, document.baseURI).href;
          inside.document.head.append(script);
        };
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      const failed = () => this.onerror?.(new Event("error", { cancelable: true }));
      this.loaded.then((inside) => inside.onmessage({ data })).catch(failed);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
