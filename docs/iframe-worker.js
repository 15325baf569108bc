/* The search of the site runs in a worker, which browsers refuse to pages that are read from a folder. There this runs
   it in a hidden frame instead, so that nothing is fetched from elsewhere. Beside the pages' own script it has only to
   know what that uses: messages both ways, and importScripts. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.inside.importScripts = (...addresses) => addresses.reduce(
        (before, address) => before.then(() => new Promise((loaded, failed) => {
          const script = this.inside.document.createElement("script");
          Object.assign(script, { src: address, onload: loaded, onerror: failed });
          this.inside.document.body.appendChild(script);
        })), Promise.resolve());
      this.inside.postMessage = (data) => this.tell(data);  // of the worker's script, to the page
      this.inside.importScripts(address);
    }
    postMessage(data) {
      this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }
    tell(data) {
      setTimeout(() => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      });
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
